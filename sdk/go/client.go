package signet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const defaultTimeout = 30 * time.Second

// Options configures a [Client]. BaseURL is required, and either ClientID or a Store that holds the credential.
type Options struct {
	// BaseURL is the address of the service, for instance https://api.example.com.
	BaseURL string
	// RegionURLs are the base URLs of other regions' APIs. An answer 421 leads to these and BaseURL only, because the token
	// goes along.
	RegionURLs []string
	// ClientID may be empty if the store holds it. White space around it and the secret is ignored.
	ClientID string
	// ClientSecret may be empty if the store holds it, or if a certificate or an assertion authenticates.
	ClientSecret string
	// Store keeps a rotated secret. Without it, a successor is never used, and the secret ends with its overlap.
	Store CredentialStore
	// Assertion returns an assertion in place of a secret. See [PrivateKeyAssertion], or return the platform's.
	Assertion func(ctx context.Context, audience string) (string, error)
	// Scopes of the tokens; all of the principal's by default.
	Scopes []string
	// TLS is for mutual TLS.
	TLS *TLSOptions
	// HTTPClient replaces the client's own; TLS is then its concern. Redirects are not followed in any case.
	HTTPClient *http.Client
	// Retry says how often and how fast to retry.
	Retry RetryPolicy
	// Timeout limits one request with its answer; 30 seconds by default. The context limits a call with its retries.
	Timeout time.Duration
	// AllowPlainHTTP lets secrets and tokens travel unencrypted to other machines: for networks with their own encryption.
	AllowPlainHTTP bool
	// Warn receives problems that do not fail a call; slog by default.
	Warn func(Warning)

	// core has what tests replace.
	core core
}

// Client is a client of one tenant, safe for concurrent use. Create one and keep it: it holds the token and the connections.
type Client struct {
	// Endpoints are the destinations of webhooks.
	Endpoints *Endpoints
	// EventTypes is the catalogue of event types.
	EventTypes *EventTypes
	// Events publishes and reads events.
	Events *Events
	// Deliveries are the deliveries and their attempts.
	Deliveries *Deliveries
	// DeadLetters are deliveries that have failed 17 times, for 7 days.
	DeadLetters *DeadLetters
	// Replays are jobs that deliver many again.
	Replays *Replays
	// Credentials are the tenant's own.
	Credentials *Credentials
	// Compliance is the tenant's compliance log.
	Compliance *Compliance
	// Streams are streams of security events.
	Streams *Streams
	// Portal creates sign-in links.
	Portal *Portal

	source *tokenSource
}

// NewClient creates a client. It sends nothing yet.
func NewClient(options Options) (*Client, error) {
	baseURL, err := readBaseURL(options.BaseURL, options.AllowPlainHTTP)
	if err != nil {
		return nil, fmt.Errorf("signet: BaseURL %w", err)
	}
	regions := make([]string, len(options.RegionURLs))
	for i, region := range options.RegionURLs {
		if regions[i], err = readBaseURL(region, options.AllowPlainHTTP); err != nil {
			return nil, fmt.Errorf("signet: RegionURLs[%d] %w", i, err)
		}
	}
	for name, text := range map[string]*string{"ClientID": &options.ClientID, "ClientSecret": &options.ClientSecret} {
		// A file ends with a newline, and an editor may begin it with a byte order mark.
		read := strings.TrimSpace(strings.TrimPrefix(*text, "\ufeff"))
		if read == "" && *text != "" {
			return nil, fmt.Errorf("signet: %s is empty", name)
		}
		*text = read
	}
	if options.ClientID == "" && options.Store == nil {
		return nil, errors.New("signet: ClientID or a Store that holds the credential is needed")
	}
	if file, isFile := options.Store.(*FileCredentialStore); isFile && file.path == "" {
		return nil, &CredentialError{Detail: errNoPath.Error()}
	}
	if options.ClientID == "" && options.ClientSecret != "" {
		return nil, errors.New("signet: ClientSecret needs a ClientID")
	}
	if options.TLS != nil && (options.HTTPClient != nil || !strings.HasPrefix(baseURL, "https:")) {
		return nil, errors.New("signet: TLS needs an https address, and no HTTPClient")
	}
	run := options.core
	run.warn, run.retry, run.timeout = options.Warn, options.Retry.withDefaults(), options.Timeout
	if run.timeout == 0 {
		run.timeout = defaultTimeout
	}
	run.withDefaults().client = httpClient(options, run.now)
	keeper := &credentialKeeper{store: options.Store, warn: run.warn}
	if options.ClientID != "" {
		keeper.configured = &clientSecret{options.ClientID, options.ClientSecret}
	}
	source := &tokenSource{
		core: &run, keeper: keeper, url: baseURL + "/v1/auth/token",
		scope: strings.Join(options.Scopes, " "), assert: options.Assertion,
	}
	api := &transport{
		core: &run, baseURL: baseURL, regions: regions, source: source, elsewhere: map[string]string{},
	}
	return &Client{
		Endpoints:   &Endpoints{api},
		EventTypes:  &EventTypes{api},
		Events:      &Events{api},
		Deliveries:  &Deliveries{api},
		DeadLetters: &DeadLetters{api},
		Replays:     &Replays{api},
		Credentials: &Credentials{api},
		Compliance:  &Compliance{api},
		Streams:     &Streams{api},
		Portal:      &Portal{api},
		source:      source,
	}, nil
}

// AccessToken returns a token for calls outside this package, for instance to the data plane.
func (c *Client) AccessToken(ctx context.Context) (AccessToken, error) { return c.source.token(ctx) }

// AccessTokenInsteadOf returns a token to replace one that a resource rejected as expired, revoked or bound to another
// certificate.
func (c *Client) AccessTokenInsteadOf(ctx context.Context, rejected string) (AccessToken, error) {
	return c.source.tokenInsteadOf(ctx, rejected)
}

// readBaseURL returns the address in the form in which two are compared. Its errors follow the name of the option.
func readBaseURL(text string, allowPlainHTTP bool) (string, error) {
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http" {
		return "", errors.New("must be an https address")
	}
	if address.Scheme == "http" && !allowPlainHTTP && !isLoopback(address.Hostname()) {
		return "", fmt.Errorf("sends the secret to %s over plain http: use https, or AllowPlainHTTP", address.Host)
	}
	if address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return "", errors.New("must be a scheme, a host and perhaps a path, nothing else")
	}
	return address.Scheme + "://" + strings.ToLower(address.Host) + strings.TrimRight(address.EscapedPath(), "/"), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func httpClient(options Options, now func() time.Time) *http.Client {
	client := &http.Client{Transport: newTransport()}
	if options.HTTPClient != nil {
		own := *options.HTTPClient
		client = &own
	}
	if options.TLS != nil {
		client.Transport = &renewingTransport{options: *options.TLS, now: now}
	}
	// A redirect would send the token or the secret elsewhere.
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}
