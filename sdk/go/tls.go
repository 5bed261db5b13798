package signet

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"sync"
	"time"
)

// certificateAge is how long a client certificate is used before the program is asked for it again.
const certificateAge = 30 * time.Second

// TLSOptions configures mutual TLS.
type TLSOptions struct {
	// Certificate returns the client certificate. It is called every 30 seconds, so that a renewed one is used. See
	// [CertificateFiles].
	Certificate func() (*tls.Certificate, error)
	// RootCAs verify the server; those of the system by default.
	RootCAs *x509.CertPool
}

// CertificateFiles reads a client certificate, followed by its intermediates, and its key from PEM files.
func CertificateFiles(certificate, key string) func() (*tls.Certificate, error) {
	return func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		var missing *fs.PathError
		if err != nil && !errors.As(err, &missing) {
			// The errors of package tls have no path.
			err = fmt.Errorf("%s and %s: %w", certificate, key, err)
		}
		return &pair, err
	}
}

// renewingTransport uses new connections for a renewed certificate: tokens are bound to the certificate of the connection
// on which they were requested.
type renewingTransport struct {
	options TLSOptions
	now     func() time.Time

	mu      sync.Mutex
	readAt  time.Time
	current *http.Transport
	leaf    []byte
}

// RoundTrip implements [http.RoundTripper].
func (t *renewingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	transport, err := t.transport()
	if err != nil {
		return nil, err
	}
	return transport.RoundTrip(request)
}

func (t *renewingTransport) transport() (*http.Transport, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil && t.now().Sub(t.readAt) < certificateAge {
		return t.current, nil
	}
	t.readAt = t.now()
	if t.options.Certificate == nil {
		t.replace(nil)
		return t.current, nil
	}
	certificate, err := t.options.Certificate()
	if err == nil && len(certificate.Certificate) == 0 {
		err = &CredentialError{Detail: "the client certificate is empty"}
	}
	if err != nil && t.current != nil {
		// Files may not match for a moment while they are replaced.
		return t.current, nil
	}
	if err != nil {
		return nil, err
	}
	if t.current == nil || !bytes.Equal(t.leaf, certificate.Certificate[0]) {
		t.replace(certificate)
	}
	return t.current, nil
}

// replace lets requests in progress end on their connections.
func (t *renewingTransport) replace(certificate *tls.Certificate) {
	before := t.current
	if before != nil && certificate == nil {
		return
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: t.options.RootCAs}
	if certificate != nil {
		config.Certificates, t.leaf = []tls.Certificate{*certificate}, certificate.Certificate[0]
	}
	t.current = newTransport()
	t.current.TLSClientConfig = config
	if before != nil {
		before.CloseIdleConnections()
	}
}

// newTransport returns a transport of this client's own, so that its connections are not shared.
func newTransport() *http.Transport {
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		return standard.Clone()
	}
	return &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
}
