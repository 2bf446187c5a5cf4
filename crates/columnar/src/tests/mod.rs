mod decoding;
mod old_messages;
mod sending;
