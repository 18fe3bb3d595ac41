"""A client system in Python, with nothing but kazoo and, for those who log in, redis: what docs/protocol.md says.

    account_client.py --zookeeper 127.0.0.1:2181 --platform DIR finance/billing/web1:8080 ...
    account_client.py --zookeeper ... --platform DIR --redis redis://127.0.0.1:6379 --book '{allot}:accounts' ...

The platform on which the accounts are is a folder: a login is a file that must not be there yet. Who finds one there says
so in `violations`. Lines of standard input say what happens: `come PATH`, `go PATH`, `mute PATH`, `speak PATH`,
`hang PATH`, `wake PATH`, `return PATH ACCOUNT`, `unusable PATH ACCOUNT`, `use PATH N` (N instructions with each account that it
has), `lazy PATH` (it leaves old entries in its report), `leave PATH` (it goes for good, and says so); `dump` prints what everybody has, as a line of JSON, and `sent` how many instructions everybody has sent.
"""

import argparse
import json
import os
import random
import sys
import threading
import time
import traceback
import urllib.parse

import redis
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

SAFE = "!#$&'()*+,-.:;<=>?@[]^_`{|}~"
FORBIDDEN = ("NOTOWNER", "BADSTATE", "STALE", "NOTFOUND")


def part(name):
    """A name as part of a path."""
    return name.replace(".", "%2E") if name in (".", "..") else urllib.parse.quote(name, safe=SAFE)


class Platform:
    """Where the accounts are: one login of each at a time, and somebody who notices."""

    def __init__(self, folder):
        self.folder = folder

    def file(self, account):
        return os.path.join(self.folder, part(account))

    def login(self, account, who):
        mine = os.path.join(self.folder, f".{os.getpid()}.{threading.get_ident()}")
        with open(mine, "w", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {who}")
        try:
            os.link(mine, self.file(account))
        except FileExistsError:
            self.second(account, who, mine)
        finally:
            os.unlink(mine)

    def second(self, account, who, mine):
        """Somebody is logged in: a violation, unless that process is dead, and its connection with it."""
        try:
            with open(self.file(account), encoding="utf-8") as file:
                pid, other = file.read().split(" ", 1)
            os.kill(int(pid), 0)
        except (ProcessLookupError, FileNotFoundError):
            os.replace(mine, self.file(account))
            os.close(os.open(mine, os.O_CREAT))
            return
        with open(os.path.join(self.folder, "violations"), "a", encoding="utf-8") as file:
            file.write(f"{account}: {who} while {other} ({pid}) is logged in\n")

    def logout(self, account):
        try:
            os.unlink(self.file(account))
        except FileNotFoundError:
            pass


class Logins:
    """Exclusive logins by the book, which hold when ZooKeeper is away."""

    def __init__(self, arguments):
        self.ttl = int(arguments.session * 3000)
        self.book = arguments.book
        self.client = redis.Redis.from_url(arguments.redis, decode_responses=True, socket_timeout=2) if arguments.redis else None
        self.until = {}  # epoch of a login -> until when it can be relied on, by our own clock

    def attempt(self, act):
        """What comes of it, or nothing where it is refused."""
        try:
            return act()
        except redis.ResponseError as error:
            if not str(error).startswith(FORBIDDEN):
                print(f"client: {error}", file=sys.stderr)
        except (redis.ConnectionError, redis.TimeoutError) as error:
            print(f"client: {error}", file=sys.stderr)
        return None

    def ask(self, command, *words):
        return self.attempt(lambda: self.client.execute_command(command, self.book, *words))

    def login(self, account, instance):
        """The login's epoch; 0 where logins are not asked for, nothing where it is refused."""
        if self.client is None:
            return 0
        return self.attempt(lambda: self.confirmed_login(account, f"t-{instance}", instance))

    def waited(self, commands):
        """The replies, and whether a failover forgets none of the commands: if there are replicas, one has them all."""
        replicas = self.client.execute_command("ROLE")[2]
        one_connection = self.client.pipeline(transaction=False)
        for command in commands:
            one_connection.execute_command(*command)
        if replicas:
            one_connection.execute_command("WAIT", 1, 500)
        replies = one_connection.execute(raise_on_error=False)
        confirmed = not replicas or isinstance(replies[-1], int) and replies[-1] >= 1
        return replies[:len(commands)], confirmed

    def relied(self, begun):
        """Until when a login can be relied on: the server grants it later than we asked, and we log out in good time."""
        return begun + 0.9 * self.ttl / 1000

    def is_over(self, epoch):
        """Whether a login cannot be relied on any longer. After a failover, somebody else may log in."""
        return self.client is not None and time.monotonic() >= self.until.get(epoch, 0)

    def confirmed_login(self, account, terminal, instance):
        """A login that a failover does not forget."""
        begun = time.monotonic()
        (reply,), confirmed = self.waited([("ACCOUNT.LOGIN", self.book, account, instance, terminal, "TTL", self.ttl)])
        if isinstance(reply, redis.ResponseError):
            raise reply
        epoch = reply["epoch"] if isinstance(reply, dict) else reply[3]
        if not confirmed:
            self.logout(account, epoch)
            return None
        self.until[epoch] = self.relied(begun)
        return epoch

    def renew(self, logins):
        """Extends logins (account -> epoch). Which of them are over."""
        if self.client is None or not logins:
            return []
        ended = self.attempt(lambda: self.confirmed_renewals(logins))
        return list(logins) if ended is None else ended

    def confirmed_renewals(self, logins):
        """As `renew`. A deadline that no replica has does not count: a failover would forget it."""
        begun = time.monotonic()
        commands = [("ACCOUNT.RENEW", self.book, account, epoch, "TTL", self.ttl) for account, epoch in logins.items()]
        replies, confirmed = self.waited(commands)
        refused = {account for account, reply in zip(logins, replies) if isinstance(reply, redis.ResponseError)}
        if confirmed:
            self.until.update({epoch: self.relied(begun) for account, epoch in logins.items() if account not in refused})
        return list(refused)

    def logout(self, account, epoch):
        self.until.pop(epoch, None)
        if self.client is not None:
            self.ask("ACCOUNT.LOGOUT", account, epoch)


class Instance(threading.Thread):
    """One server of a module."""

    def __init__(self, path, arguments, platform):
        super().__init__(daemon=True)
        department, module, self.instance = path.split("/", 2)
        self.name = path
        self.node = f"{arguments.root}/{part(department)}/{part(module)}/{self.instance}"
        self.arguments = arguments
        self.platform = platform
        self.logins = Logins(arguments)
        self.lock = threading.Lock()  # of all that follows
        self.held = {}  # account -> epoch of its login
        self.heard = -1e9
        self.muted = self.hung = self.ending = self.leaving = False
        self.returning, self.unusable = {}, {}  # account -> the assignment that is meant, once it is seen
        self.used = {}  # account -> assignment -> the instructions since then
        self.using = self.sent = 0  # instructions to send with each account, and sent with all
        self.lazy = False
        self.old = {}  # released entries that a lazy instance leaves in its report
        self.news = threading.Event()

    # --- who has not heard anything for 0.6 of its session uses nothing, nor an account whose login may be over

    def is_safe(self):
        return time.monotonic() < self.heard + 0.6 * self.arguments.session

    def guard(self):
        """Called by another thread, all the time: this one may hang in a call."""
        if not self.is_safe():
            with self.lock:
                if not self.is_safe():
                    self.drop(list(self.held))
        with self.lock:
            self.drop([account for account, epoch in self.held.items() if self.logins.is_over(epoch)])

    def drop(self, accounts):
        for account in accounts:
            epoch = self.held.pop(account, None)
            if epoch is not None:
                self.platform.logout(account)
                self.logins.logout(account, epoch)

    def take(self, account):
        epoch = self.logins.login(account, self.instance)
        with self.lock:
            if epoch is not None and self.is_safe():
                self.platform.login(account, self.name)
                self.held[account] = epoch

    # --- sessions

    def run(self):
        while not self.ending:
            # It tries again soon however long it was in vain.
            retry = {"max_tries": -1, "max_delay": 1.0}
            client = KazooClient(hosts=self.arguments.zookeeper, timeout=self.arguments.session, connection_retry=retry)
            try:
                self.live(client)
            except (KazooException, client.handler.timeout_exception) as error:
                print(f"client: {self.name}: {error!r}", file=sys.stderr)
            except Exception:  # a server starts again after any error
                traceback.print_exc()
            time.sleep(0.05)

    def call(self, answer):
        """An answer, which kazoo may have lost."""
        return answer.get(timeout=2 * self.arguments.session)

    def live(self, client):
        try:
            client.start(timeout=10)
            self.session(client)
        finally:
            # Nothing outlives a session.
            with self.lock:
                self.heard = -1e9
                self.drop(list(self.held))
            client.stop()
            client.close()

    def session(self, client):
        words, stale, said, alloc = {}, set(), None, None
        lost, cut, relook = threading.Event(), threading.Event(), threading.Event()
        relook.set()

        def wake(event=None):
            relook.set()
            self.news.set()

        def changed(state):
            if state == KazooState.LOST:
                lost.set()
            # All watches are gone with the connection, and whatever has changed since was not heard.
            cut.set()
            wake()

        def touched(event):
            # Of a cut, every watch is told, without a path.
            if event.path is not None:
                stale.add(event.path.rsplit("/", 1)[1])
            wake()

        client.add_listener(changed)
        while not self.ending and not lost.is_set():
            while self.hung and not self.ending:
                time.sleep(0.01)
            sent = time.monotonic()
            self.call(client.sync_async(self.node))
            if lost.is_set():
                break
            self.heard = sent
            if not self.be_there(client):
                self.news.wait(0.1 * self.arguments.session)
                self.news.clear()
                continue
            if alloc is None:
                # Where our accounts are is written into our node.
                data, _ = self.call(client.get_async(self.node, watch=wake))
                alloc = data.decode() or None
            if alloc is not None:
                if relook.is_set():
                    relook.clear()
                    if cut.is_set():
                        cut.clear()
                        stale.update(words)
                    self.read(client, alloc, words, stale, wake, touched)
                said = self.answer(client, alloc, words, said)
                if alloc is not None and not words and not self.call(client.exists_async(alloc)):
                    break
            self.news.wait(0.1 * self.arguments.session)
            self.news.clear()

    def be_there(self, client):
        """Whether our node is ours. One of our name is of an older process; it goes with that one's session."""
        node = self.call(client.exists_async(self.node))
        ours = client.client_id  # nothing while it is cut off
        if ours is None:
            return False
        if node is not None and node.ephemeralOwner == ours[0]:
            return True
        if node is not None and not self.arguments.replace:
            return False
        try:
            if node is not None:
                # We have its port, so it is dead.
                self.call(client.delete_async(self.node))
            self.call(client.create_async(self.node, b"", ephemeral=True))
        except (NodeExistsError, NoNodeError):
            return False  # its module's node is the leader's to make
        return True

    def read(self, client, alloc, words, stale, wake, touched):
        """What we are shown."""
        try:
            names = self.call(client.get_children_async(alloc, watch=wake))
        except NoNodeError:
            wake()  # it may be there again, and nobody watches it
            return words.clear()
        for name in [name for name in words if name not in names]:
            del words[name]
        again, known = [], set(words)
        for name in [name for name in names if name not in known or name in stale]:
            stale.discard(name)
            again.append((name, client.get_async(f"{alloc}/{name}", watch=touched)))
        for name, answer in again:
            try:
                words[name] = json.loads(self.call(answer)[0])
            except (NoNodeError, ValueError):
                words.pop(name, None)  # gone, or not the leader's word

    @staticmethod
    def is_meant(assignments, account, epoch):
        """Whether this assignment is the one that we want to be rid of. A later one of the same account is welcome."""
        if account in assignments and assignments[account] is None:
            assignments[account] = epoch
        return assignments.get(account) == epoch

    def use(self, words, ours):
        """Sends instructions. Returns how many it has sent since the last assignments of each account that it sees."""
        shown = {word["account"]: word["epoch"] for word in words.values()}
        self.used = {account: totals for account, totals in self.used.items() if account in shown}
        if self.using:
            for account in ours.intersection(self.held):
                totals = self.used.setdefault(account, {})
                totals[shown[account]] = totals.get(shown[account], 0) + self.using
                self.sent += self.using
            self.using = 0
        return {account: dict(sorted(totals.items())[-4:]) for account, totals in self.used.items()}

    def answer(self, client, alloc, words, said):
        """Uses what is ours, gives back what is asked for, and says so."""
        if self.muted:
            return said
        released, unusable, ours = {}, {}, set()
        for word in words.values():
            account, epoch = word["account"], word["epoch"]
            if self.is_meant(self.unusable, account, epoch):
                unusable[account] = epoch
            elif word["state"] == "revoke" or self.is_meant(self.returning, account, epoch):
                released[account] = epoch
            else:
                ours.add(account)
        leaving = self.leaving
        ending = [account for account in list(self.held) if account not in ours or leaving]
        if ending:
            # Logging out may take its time.
            time.sleep(random.random() * self.arguments.slow)
        with self.lock:
            self.drop(ending)
            used = self.use(words, ours)
        if self.lazy:
            self.old.update(released)
            released = {**self.old, **released}
        saying = {"released": released, "unusable": unusable, "used": used}
        if leaving:
            saying["leaves"] = True
        saying = json.dumps(saying, sort_keys=True)
        if saying != said and (said is not None or released or unusable or used or leaving):
            self.call(client.set_async(alloc, saying.encode()))
            said = saying
        if leaving:
            self.ending = True
            return said
        with self.lock:
            logins = {account: epoch for account, epoch in self.held.items() if account in ours}
        ended = self.logins.renew(logins)
        with self.lock:
            self.drop([account for account in ended if self.held.get(account) == logins[account]])
        for account in ours.difference(logins):
            self.take(account)
        return said



class Host:
    """All instances of this process."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.platform = Platform(arguments.platform)
        self.instances = {}

    def come(self, path):
        self.instances[path] = Instance(path, self.arguments, self.platform)
        self.instances[path].start()

    def go(self, path, for_good=False):
        instance = self.instances[path]
        if for_good:
            instance.leaving = True
        else:
            instance.ending = True
        instance.news.set()
        instance.join(30)
        del self.instances[path]  # until then it is guarded

    def obey(self, word, path="", account=""):
        instance = self.instances.get(path)
        if word == "dump":
            everybody = {name: one.held for name, one in self.instances.items()}
            print(json.dumps(everybody), flush=True)
        elif word == "sent":
            print(json.dumps({name: one.sent for name, one in self.instances.items()}), flush=True)
        elif word == "come":
            self.come(path)
        elif word in ("go", "leave"):
            self.go(path, word == "leave")
        elif word in ("mute", "speak"):
            instance.muted = word == "mute"
        elif word in ("hang", "wake"):
            instance.hung = word == "hang"
        elif word == "use":
            instance.using += int(account)
        elif word == "lazy":
            instance.lazy = True
        elif word == "return":
            instance.returning[account] = None
        elif word == "unusable":
            instance.unusable[account] = None
        if instance:
            instance.news.set()

    def guard(self):
        while True:
            for instance in list(self.instances.values()):
                instance.guard()
            time.sleep(0.02 * self.arguments.session)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--zookeeper", required=True)
    parser.add_argument("--platform", required=True)
    parser.add_argument("--root", default="/resource")
    parser.add_argument("--session", type=float, default=4.0)
    parser.add_argument("--redis")
    parser.add_argument("--book", default="{allot}:accounts")
    parser.add_argument("--slow", type=float, default=0.0, help="how long a logout may take, in seconds")
    parser.add_argument("--replace", action="store_true", help="an older node of our name is that of a dead process")
    parser.add_argument("instances", nargs="*")
    host = Host(parser.parse_args())
    threading.Thread(target=host.guard, daemon=True).start()
    for path in host.arguments.instances:
        host.come(path)
    for line in sys.stdin:
        host.obey(*line.split())
    for path in list(host.instances):
        host.go(path)


main()
