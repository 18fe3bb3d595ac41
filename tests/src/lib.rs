//! The test rig.
