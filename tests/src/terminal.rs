//! A program at a terminal: what people see and type.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::wait::{TIMEOUT, eventually};

/// Runs a program in a session of its own, whose terminal has the columns of the first argument, and passes on what is
/// typed and shown.
const RELAY: &str = "
import fcntl, os, pty, select, struct, sys, termios
process, terminal = pty.fork()
if process == 0:
    # The program begins when the terminal has its size.
    os.read(0, 1)
    os.execvp(sys.argv[2], sys.argv[2:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 50, int(sys.argv[1]), 0, 0))
os.write(terminal, b'\\n')
sources = [terminal, 0]
while True:
    for source in select.select(sources, [], [])[0]:
        try:
            data = os.read(source, 65536)
        except OSError:
            data = b''
        if source == 0 and not data:
            sources.remove(0)
        elif source == 0:
            os.write(terminal, data)
        elif data:
            os.write(1, data)
        else:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
";

/// A program that runs at a terminal of its own.
#[derive(Debug)]
pub struct Terminal {
    relay: Child,
    keys: Option<ChildStdin>,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts the command at a terminal of so many columns.
    pub fn open(command: &Command, columns: u16) -> Self {
        let mut python = Command::new("python3");
        python.args(["-c", RELAY, &columns.to_string()]).arg(command.get_program()).args(command.get_args());
        python.env("TERM", "xterm-256color");
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => python.env(name, value),
                None => python.env_remove(name),
            };
        }
        let mut relay =
            python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 is there");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let mut output = relay.stdout.take().expect("it is piped");
        let into = Arc::clone(&shown);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                let mut shown = into.lock().unwrap_or_else(PoisonError::into_inner);
                shown.extend(buffer.iter().take(count));
            }
        });
        Self { keys: relay.stdin.take(), relay, shown, reader: Some(reader) }
    }

    /// All that was shown so far, with the sequences that move the cursor and change colours.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits until this was shown.
    #[track_caller]
    pub fn shows(&self, text: &str) {
        eventually(&format!("the terminal to show {text:?}"), TIMEOUT, || self.shown().contains(text));
    }

    /// Types. `\x03` is Ctrl-C.
    pub fn types(&mut self, keys: &str) {
        self.keys.as_mut().expect("it is open until the end").write_all(keys.as_bytes()).expect("it runs");
    }

    /// Waits for the end of the program: its exit code, and all that was shown.
    pub fn ended(mut self) -> (i32, String) {
        let status = self.relay.wait().expect("it was started");
        drop(self.keys.take());
        let reader = self.reader.take().expect("it ends once");
        reader.join().expect("it only reads");
        (status.code().expect("it ends by itself"), self.shown())
    }
}

/// What a command that succeeds shows a person at a terminal of 80 columns.
#[track_caller]
pub fn on_terminal(command: &Command) -> String {
    let (code, shown) = Terminal::open(command, 80).ended();
    assert_eq!(code, 0, "{shown}");
    shown
}
