//! The one way to the server's function pointers.

/// Calls `RedisModule_$name`. The pointers are filled by `RedisModule_Init` before any code of ours runs, and
/// all that is called so exists since Redis 7.0; what is newer is asked for with `is_some`.
macro_rules! api {
    ($name:ident ( $($arg:expr),* $(,)? )) => {{
        match ::redis_module::raw::$name {
            Some(function) => function($($arg),*),
            None => $crate::ffi::api::missing(stringify!($name)),
        }
    }};
}
pub(crate) use api;

/// A server without a function that Redis 7.0 has cannot run this module.
#[cold]
pub(crate) fn missing(name: &str) -> ! {
    eprintln!("allot: this server lacks {name}; Redis 7.0 or newer, or Valkey, is needed");
    std::process::abort()
}
