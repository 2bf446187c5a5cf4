mod decoding;
mod sending;
