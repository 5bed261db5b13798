// The client's certificate as RFC 9440 writes it; empty without one, and nginx then sends no header.
function clientCert(r) {
  const pem = r.variables.ssl_client_raw_cert;
  return pem ? ":" + pem.replace(/-----(BEGIN|END) CERTIFICATE-----|\s/g, "") + ":" : "";
}

export default { clientCert };
