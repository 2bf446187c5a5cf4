//! A throw-away certificate authority for tests.

use ottla_broker::{Authority, Issued};
use pyo3::prelude::*;

use crate::bridge::errors;

/// An authority whose key stays in memory. Threads may share it.
#[pyclass(frozen, module = "ottla._ottla")]
pub(crate) struct CertificateAuthority {
    authority: Authority,
}

/// A certificate and its key in PEM.
fn pair(issued: Result<Issued, String>) -> PyResult<(String, String)> {
    let issued = issued.map_err(|what| errors::argument(&what))?;
    let key = issued.key_pem();
    Ok((issued.certificate, key))
}

#[pymethods]
impl CertificateAuthority {
    #[new]
    #[pyo3(signature = (name, not_before, not_after))]
    fn new(name: &str, not_before: i64, not_after: i64) -> PyResult<Self> {
        let authority = Authority::new(name, not_before, not_after);
        let authority = authority.map_err(|what| errors::argument(&what))?;
        Ok(Self { authority })
    }

    #[getter]
    fn certificate(&self) -> String {
        self.authority.certificate()
    }

    fn server(
        &self,
        hosts: Vec<String>,
        not_before: i64,
        not_after: i64,
    ) -> PyResult<(String, String)> {
        pair(self.authority.server(&hosts, not_before, not_after))
    }

    fn client(&self, name: &str, not_before: i64, not_after: i64) -> PyResult<(String, String)> {
        pair(self.authority.client(name, not_before, not_after))
    }
}
