package signet

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestCallersShareOneTokenRequest(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, nil)
	var group sync.WaitGroup
	for range 20 {
		group.Add(1)
		go func() {
			defer group.Done()
			token, err := client.AccessToken(ctx)
			if err != nil || token.Value != "token-1" || token.Scope != "a:b" {
				t.Errorf("%q %v", token.Value, err)
			}
		}()
	}
	group.Wait()
	equal(t, s.tokens, 1)
	token, _ := client.AccessToken(ctx)
	equal(t, fmt.Sprintf("%v %+v %#v", token, token, token), "[token] [token] [token]")
}

func TestATokenIsRenewedInTheBackgroundAndReplacedBeforeItsEnd(t *testing.T) {
	s := startService(t)
	client, clock := connect(t, s, nil)
	value := func() string {
		token, err := client.AccessToken(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return token.Value
	}
	equal(t, value(), "token-1")
	clock.advance(690 * time.Second)
	equal(t, value(), "token-1")
	equal(t, s.tokens, 1)
	clock.advance(10 * time.Second)
	// The caller gets the old one meanwhile.
	equal(t, value(), "token-1")
	for client.source.isFlying() {
		time.Sleep(time.Millisecond)
	}
	equal(t, value(), "token-2")
	clock.advance(871 * time.Second)
	equal(t, value(), "token-3")
}

// isFlying reports whether a token is being requested.
func (s *tokenSource) isFlying() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flight != nil
}

func TestAFailedRenewalIsAWarning(t *testing.T) {
	s := startService(t)
	client, clock := connect(t, s, func(o *Options) { o.Retry.Attempts = 1 })
	_, _ = client.AccessToken(ctx)
	clock.advance(800 * time.Second)
	s.tokenAnswers = []http.HandlerFunc{answerJSON(503, rejection("UNAVAILABLE"))}
	if _, err := client.AccessToken(ctx); err != nil {
		t.Fatal(err)
	}
	for clock.codes() != "REFRESH_FAILED" {
		time.Sleep(time.Millisecond)
	}
	_, _ = client.AccessToken(ctx)
	equal(t, client.source.isFlying(), false)
	clock.advance(10 * time.Second)
	_, _ = client.AccessToken(ctx)
	for client.source.isFlying() {
		time.Sleep(time.Millisecond)
	}
	equal(t, s.tokens, 3)
}

func TestARejectedTokenIsReplacedOnce(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, nil)
	s.answers = []http.HandlerFunc{
		answerJSON(401, rejection("TOKEN_REVOKED")), answerJSON(204, ""),
		answerJSON(401, rejection("TOKEN_EXPIRED")), answerJSON(401, rejection("TOKEN_EXPIRED")),
		answerJSON(401, rejection("TOKEN_INVALID")),
	}
	equal(t, client.Endpoints.Delete(ctx, "ep_1"), nil)
	equal(t, s.requests[1].authorization, "Bearer token-2")
	equal(t, apiError(t, client.Endpoints.Delete(ctx, "ep_1")).Code, CodeTokenExpired)
	equal(t, len(s.requests), 4)
	equal(t, apiError(t, client.Endpoints.Delete(ctx, "ep_1")).Code, CodeTokenInvalid)
	equal(t, len(s.requests), 5)
}

func TestARejectedCredentialIsNotPresentedAtOnce(t *testing.T) {
	s := startService(t)
	client, clock := connect(t, s, func(o *Options) { o.ClientSecret = "wrong" })
	ask := func() {
		t.Helper()
		_, err := client.AccessToken(ctx)
		equal(t, apiError(t, err).Code, CodeInvalidClient)
		if strings.Contains(err.Error(), "wrong") {
			t.Error("the error has the secret")
		}
	}
	ask()
	ask()
	equal(t, s.tokens, 1)
	clock.advance(5 * time.Second)
	ask()
	clock.advance(9 * time.Second)
	ask()
	equal(t, s.tokens, 2)
	clock.advance(time.Second)
	ask()
	equal(t, s.tokens, 3)
}

func TestOneCallerCannotEndTheRequestOfOthers(t *testing.T) {
	s := startService(t)
	client, _ := connect(t, s, nil)
	begun, release := make(chan struct{}), make(chan struct{})
	s.tokenAnswers = []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-release
		s.answerToken(w, secretOf(1))
	}}
	impatient, cancel := context.WithCancel(ctx)
	failed := make(chan error)
	go func() {
		_, err := client.AccessToken(impatient)
		failed <- err
	}()
	<-begun
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
	token, err := client.AccessToken(ctx)
	if err != nil || token.Value != "token-1" {
		t.Error(token.Value, err)
	}
}

func fileStore(t *testing.T, text string) (*FileCredentialStore, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "credential.json")
	if text != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return NewFileCredentialStore(path), path
}

// createdCredential is what the service answers when an operator creates a credential.
func createdCredential() string {
	return fmt.Sprintf(`{"id":"crd_1","client_id":"cl_1","client_secret":%q,"version":1}`, secretOf(1))
}

func versions(t *testing.T, path string) [2]int {
	t.Helper()
	stored, err := NewFileCredentialStore(path).Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found := [2]int{stored.Current.Version}
	if stored.Next != nil {
		found[1] = stored.Next.Version
	}
	return found
}

func TestASuccessorIsStoredBeforeItIsUsed(t *testing.T) {
	s := startService(t)
	store, path := fileStore(t, createdCredential())
	client, clock := connect(t, s, func(o *Options) { o.ClientID, o.ClientSecret, o.Store = "", "", store })
	s.due[secretOf(1)] = true
	_, err := client.AccessToken(ctx)
	equal(t, err, nil)
	equal(t, versions(t, path), [2]int{1, 2})
	clock.advance(time.Hour)
	_, err = client.AccessToken(ctx)
	equal(t, err, nil)
	equal(t, versions(t, path), [2]int{2, 0})
	equal(t, s.presented, []string{secretOf(1), secretOf(2)})
	// The file is private, and nothing is left beside it.
	info, _ := os.Stat(path)
	entries, _ := os.ReadDir(filepath.Dir(path))
	equal(t, []any{info.Mode().Perm(), len(entries)}, []any{0o600, 1})
	equal(t, clock.codes(), "")
}

func TestARejectedSuccessorGivesWayToTheOldSecret(t *testing.T) {
	s := startService(t)
	lostNext := fmt.Sprintf(
		`{"client_id":"cl_1","current":{"client_secret":%q,"version":1},"next":{"client_secret":"unknown","version":2}}`,
		secretOf(1),
	)
	store, path := fileStore(t, lostNext)
	client, clock := connect(t, s, func(o *Options) { o.ClientID, o.ClientSecret, o.Store = "", "", store })
	s.due[secretOf(1)] = true
	_, err := client.AccessToken(ctx)
	equal(t, err, nil)
	equal(t, s.presented, []string{"unknown", secretOf(1)})
	equal(t, versions(t, path), [2]int{1, 2})
	clock.advance(time.Hour)
	_, err = client.AccessToken(ctx)
	equal(t, err, nil)
	equal(t, s.presented[2], secretOf(2))
	equal(t, versions(t, path), [2]int{2, 0})
}

func TestAnOlderSuccessorDoesNotReplaceANewerOne(t *testing.T) {
	newer := &StoredCredential{ClientID: "cl_1", Current: StoredSecret{"three", 3}}
	if withSuccessor(newer, clientSecret{"cl_1", "one"}, StoredSecret{"two", 2}) != newer {
		t.Error("version 2 replaces version 3")
	}
	other := withSuccessor(newer, clientSecret{"cl_2", "one"}, StoredSecret{"two", 2})
	equal(t, *other.Next, StoredSecret{"two", 2})
	equal(t, fmt.Sprintf("%v %+v %#v", other.Current, other.Current, other.Current), "[secret] [secret] [secret]")
}

// brokenStore can be read and not written.
type brokenStore struct{ CredentialStore }

func (brokenStore) Save(context.Context, *StoredCredential) error { return errors.New("read-only") }

func TestASuccessorThatCannotBeStoredIsNotUsed(t *testing.T) {
	for name, broken := range map[string]func(CredentialStore) CredentialStore{
		"no store":          func(CredentialStore) CredentialStore { return nil },
		"a read-only store": func(store CredentialStore) CredentialStore { return brokenStore{store} },
	} {
		t.Run(name, func(t *testing.T) {
			s := startService(t)
			s.due[secretOf(1)] = true
			store, _ := fileStore(t, createdCredential())
			client, clock := connect(t, s, func(o *Options) { o.Store = broken(store) })
			for range 2 {
				if _, err := client.AccessToken(ctx); err != nil {
					t.Fatal(err)
				}
				clock.advance(time.Hour)
			}
			equal(t, s.presented, []string{secretOf(1), secretOf(1)})
			equal(t, clock.codes(), "SUCCESSOR_NOT_STORED SUCCESSOR_NOT_STORED")
		})
	}
}

func TestTheConfiguredCredentialIsForAnEmptyOrForeignStore(t *testing.T) {
	for _, text := range []string{"", `{"client_id":"cl_other","client_secret":"foreign","version":1}`, "not JSON"} {
		s := startService(t)
		store, _ := fileStore(t, text)
		client, clock := connect(t, s, func(o *Options) { o.Store = store })
		_, err := client.AccessToken(ctx)
		equal(t, err, nil)
		equal(t, s.presented, []string{secretOf(1)})
		equal(t, strings.Contains(clock.codes(), "STORE_UNREADABLE"), text == "not JSON")
	}
	s := startService(t)
	store, _ := fileStore(t, "")
	client, _ := connect(t, s, func(o *Options) { o.ClientID, o.ClientSecret, o.Store = "", "", store })
	_, err := client.AccessToken(ctx)
	var missing *CredentialError
	if !errors.As(err, &missing) {
		t.Error(err)
	}
}

func TestFilesAreNamedInErrors(t *testing.T) {
	s := startService(t)
	_, err := NewClient(Options{BaseURL: s.URL, Store: NewFileCredentialStore("")})
	if err == nil || !strings.Contains(err.Error(), "the path of the credential's file is not set") {
		t.Error(err)
	}
	for text, reason := range map[string]string{"": " does not exist", "[": " is not JSON", "{}": ": the stored credential lacks"} {
		store, path := fileStore(t, text)
		client, _ := connect(t, s, func(o *Options) { o.ClientID, o.ClientSecret, o.Store = "", "", store })
		if _, err := client.AccessToken(ctx); err == nil || !strings.Contains(err.Error(), path+reason) {
			t.Error(err)
		}
	}
	_, path := fileStore(t, "no certificate")
	for _, files := range [][2]string{{path + ".missing", path}, {path, path + ".missing"}, {path, path}} {
		_, err := CertificateFiles(files[0], files[1])()
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Error(err)
		}
	}
}

func TestACredentialMayBeginWithAByteOrderMark(t *testing.T) {
	store, _ := fileStore(t, "\ufeff"+createdCredential())
	stored, err := store.Load(ctx)
	if err != nil || stored.ClientID == "" {
		t.Error(err)
	}
}

func TestFileStoreWarnsOfReadersAndFollowsLinks(t *testing.T) {
	_, path := fileStore(t, createdCredential())
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.json")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	warnings := ""
	store := NewFileCredentialStore(link)
	store.Warn = func(warning Warning) { warnings += warning.Code }
	stored, err := store.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, warnings, "STORE_EXPOSED")
	stored.Next = &StoredSecret{"next", 2}
	equal(t, store.Save(ctx, stored), nil)
	equal(t, versions(t, path), [2]int{1, 2})
	info, _ := os.Lstat(link)
	equal(t, info.Mode()&os.ModeSymlink != 0, true)
	target, _ := os.Stat(path)
	equal(t, target.Mode().Perm(), 0o600)
}

func TestAssertionsAreSignedAndUsedOnce(t *testing.T) {
	s := startService(t)
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assertion, err := PrivateKeyAssertion("cl_1", "k1", ec)
	if err != nil {
		t.Fatal(err)
	}
	var bodies []map[string]string
	accept := func(w http.ResponseWriter, _ *http.Request) { s.answerToken(w, secretOf(1)) }
	s.tokenAnswers = []http.HandlerFunc{accept, accept}
	client, clock := connect(t, s, func(o *Options) {
		o.ClientSecret = ""
		o.Assertion = func(ctx context.Context, audience string) (string, error) {
			text, err := assertion(ctx, audience)
			bodies = append(bodies, map[string]string{"assertion": text, "audience": audience})
			return text, err
		}
	})
	for range 2 {
		if _, err := client.AccessToken(ctx); err != nil {
			t.Fatal(err)
		}
		clock.advance(time.Hour)
	}
	equal(t, bodies[0]["audience"], s.URL+"/v1/auth/token")
	if bodies[0]["assertion"] == bodies[1]["assertion"] {
		t.Error("an assertion is used twice")
	}
	equal(t, s.presented, []string{"", ""})
}

func TestAssertionAlgorithms(t *testing.T) {
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rsaKey, _ := rsa.GenerateKey(rand.Reader, 2048)
	public, edKey, _ := ed25519.GenerateKey(rand.Reader)
	verify := map[string]func(input string, signature []byte) bool{
		"ES256": func(input string, signature []byte) bool {
			digest := sha256.Sum256([]byte(input))
			r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
			return ecdsa.Verify(&ec.PublicKey, digest[:], r, s)
		},
		"RS256": func(input string, signature []byte) bool {
			digest := sha256.Sum256([]byte(input))
			return rsa.VerifyPKCS1v15(&rsaKey.PublicKey, crypto.SHA256, digest[:], signature) == nil
		},
		"EdDSA": func(input string, signature []byte) bool { return ed25519.Verify(public, []byte(input), signature) },
	}
	for algorithm, key := range map[string]crypto.Signer{"ES256": ec, "RS256": rsaKey, "EdDSA": edKey} {
		assert, err := PrivateKeyAssertion("cl_1", "k1", key)
		if err != nil {
			t.Fatal(err)
		}
		text, err := assert(ctx, "https://api.example.com/v1/auth/token")
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(text, ".")
		header, _ := base64.RawURLEncoding.DecodeString(parts[0])
		equal(t, string(header), fmt.Sprintf(`{"alg":%q,"kid":"k1"}`, algorithm))
		signature, _ := base64.RawURLEncoding.DecodeString(parts[2])
		if !verify[algorithm](parts[0]+"."+parts[1], signature) {
			t.Error(algorithm)
		}
	}
	other, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if _, err := PrivateKeyAssertion("cl_1", "k1", other); err == nil {
		t.Error("P-384 is accepted")
	}
}

// issue creates a certificate that signs itself.
func issue(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestARenewedCertificateGetsNewConnections(t *testing.T) {
	var presented, connections []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		presented = append(presented, r.TLS.PeerCertificates[0].DNSNames[0])
		connections = append(connections, r.RemoteAddr)
		if r.URL.Path == "/v1/auth/token" {
			var body map[string]string
			_ = json.NewDecoder(r.Body).Decode(&body)
			equal(t, body, map[string]string{"grant_type": "client_credentials", "client_id": "cl_1"})
			fmt.Fprint(w, `{"access_token":"t","expires_in":90000}`)
			return
		}
		fmt.Fprint(w, `{"data":[],"next_cursor":null}`)
	}))
	closed := make(chan struct{}, 10)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	current, failure := issue(t, "one"), error(nil)
	client, clock := connect(t, &service{Server: server}, func(o *Options) {
		o.ClientSecret, o.Retry.Attempts = "", 1
		o.TLS = &TLSOptions{RootCAs: roots, Certificate: func() (*tls.Certificate, error) { return current, failure }}
	})
	call := func() {
		t.Helper()
		if _, err := client.Replays.List().Page(ctx, ""); err != nil {
			t.Fatal(err)
		}
	}
	call()
	call()
	current = issue(t, "two")
	call()
	clock.advance(30 * time.Second)
	call()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection of the old certificate is kept")
	}
	// Files may not match for a moment.
	failure = errors.New("the key does not match")
	clock.advance(30 * time.Second)
	call()
	equal(t, presented, []string{"one", "one", "one", "one", "two", "two"})
	equal(t, connections[0] == connections[3], true)
	equal(t, connections[3] == connections[4], false)
	equal(t, connections[4] == connections[5], true)
}
