//! The roles of the conference system under faults: scheduler, data proxy and media units as processes.

mod copies;
mod data_loss;
mod data_proxy;
mod failures;
mod faults;
mod figures;
mod media_programs;
mod scheduler;
