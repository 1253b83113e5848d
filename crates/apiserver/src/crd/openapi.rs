//! The OpenAPI documents that describe custom resources.
