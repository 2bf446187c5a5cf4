//! Record batches to Arrow columns and back, in one pass.
