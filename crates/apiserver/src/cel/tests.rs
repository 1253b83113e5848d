//! Rules and objects with what a stock server says about them.
