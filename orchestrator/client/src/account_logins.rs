//! Exclusive logins with an account, whose deadlines survive a failover.

use std::time::Duration;

use crate::accounts::BookStore;
use crate::error::Error;
use crate::record::records;
use crate::session::Session;

/// Replicas that must confirm a login before its holder relies on it.
#[derive(Debug)]
pub struct Confirmation<'a> {
    /// The session of the connection that sends the commands.
    pub session: &'a mut Session,
    /// How many replicas must confirm. A server without replicas needs none.
    pub replicas: u32,
    /// How long to wait for them.
    pub limit: Duration,
}

impl Confirmation<'_> {
    async fn wait(&mut self) -> Result<bool, Error> {
        self.session.wait(self.replicas, self.limit).await
    }
}

records! {
    /// A login with an account.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Login {
        /// Epoch of the login, which later commands name.
        pub epoch: u64,
        /// Until when the holder can rely on the login, in milliseconds since 1970: the latest deadline that replicas
        /// confirmed.
        pub until: i64,
    }
}

impl BookStore {
    /// Logs a terminal of an instance in with an account for `ttl`. `None` if replicas did not confirm the login: the
    /// login is then ended again, because a failover could forget it and grant another one.
    ///
    /// # Errors
    /// Any [`Error`] of a request; the codes `NOTOWNER` and `BADSTATE` say why the login is not possible.
    pub async fn login(
        &self,
        (account, instance, terminal): (&str, &str, &str),
        ttl: Duration,
        mut replicas: Confirmation<'_>,
    ) -> Result<Option<Login>, Error> {
        let mut command = self.begin("ACCOUNT.LOGIN");
        command.arg(account).arg(instance).arg(terminal).arg("TTL").arg(ttl.as_millis() as u64);
        let login: Login = self.ask(&command).await?;
        if replicas.wait().await? {
            return Ok(Some(login));
        }
        self.logout(account, login.epoch).await?;
        Ok(None)
    }

    /// Extends a login until `ttl` from now. If replicas do not confirm the new deadline, the login that is returned
    /// keeps the earlier one: after a failover that forgot the extension, another terminal may log in at that time.
    ///
    /// # Errors
    /// Any [`Error`] of a request. `STALE`: the login has ended. `BADSTATE`: the account is revoked or frozen.
    pub async fn renew(
        &self,
        account: &str,
        login: Login,
        ttl: Duration,
        mut replicas: Confirmation<'_>,
    ) -> Result<Login, Error> {
        let mut command = self.begin("ACCOUNT.RENEW");
        command.arg(account).arg(login.epoch).arg("TTL").arg(ttl.as_millis() as u64);
        let renewed: Login = self.ask(&command).await?;
        let is_confirmed = replicas.wait().await?;
        // A shorter deadline holds even if only this server knows it.
        let until = if is_confirmed { renewed.until } else { renewed.until.min(login.until) };
        Ok(Login { until, ..renewed })
    }

    /// Ends a login. Returns whether it was still there.
    ///
    /// # Errors
    /// Any [`Error`] of a request.
    pub async fn logout(&self, account: &str, epoch: u64) -> Result<bool, Error> {
        self.ask(self.begin("ACCOUNT.LOGOUT").arg(account).arg(epoch)).await
    }
}
