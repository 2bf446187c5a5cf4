//! The tokio shell around ottla-engine.
