//! Access to the server's function pointers: every call goes through here.

/// Calls `RedisModule_$name`. `RedisModule_Init` sets the pointers before any other code of the module runs. All
/// functions called in this way exist in Redis 7.0.15; `is_some` tests for newer functions.
macro_rules! api {
    ($name:ident ( $($arg:expr),* $(,)? )) => {{
        match ::redis_module::raw::$name {
            Some(function) => function($($arg),*),
            None => $crate::ffi::api::missing(stringify!($name)),
        }
    }};
}
pub(crate) use api;

/// A server without a function that Redis 7.0.15 has cannot run this module.
#[cold]
pub(crate) fn missing(name: &str) -> ! {
    eprintln!("allot: this server lacks {name}; Redis 7.0.15 or newer, or Valkey, is needed");
    std::process::abort()
}
