package signet

import (
	"context"
	"net/http"
	"net/url"
)

const streamsPath = "/v1/ssf/streams"

// Streams are streams of security events (OpenID Shared Signals Framework 1.0).
type Streams struct{ api *transport }

func streamQuery(id string) url.Values { return url.Values{"stream_id": {id}} }

// Create creates a stream: a push stream with a delivery, otherwise one for [Streams.Poll].
func (s *Streams) Create(ctx context.Context, stream NewStream, options ...CallOption) (*Stream, error) {
	return post[Stream](ctx, s.api, streamsPath, stream, options)
}

// List returns all streams of the tenant, oldest first. There are at most 10.
func (s *Streams) List(ctx context.Context) ([]Stream, error) {
	streams, err := get[[]Stream](ctx, s.api, streamsPath, nil)
	if err != nil {
		return nil, err
	}
	return *streams, nil
}

// Get returns a stream.
func (s *Streams) Get(ctx context.Context, id string) (*Stream, error) {
	return get[Stream](ctx, s.api, streamsPath, streamQuery(id))
}

// Update changes a stream. Members that are nil stay. The delivery method cannot change.
func (s *Streams) Update(ctx context.Context, id string, change StreamChange) (*Stream, error) {
	change.StreamID = id
	return patch[Stream](ctx, s.api, streamsPath, change)
}

// Delete deletes a stream with its waiting tokens.
func (s *Streams) Delete(ctx context.Context, id string) error {
	_, err := s.api.perform(ctx, call{method: http.MethodDelete, path: streamsPath, query: streamQuery(id)})
	return err
}

// Status returns the status of a stream.
func (s *Streams) Status(ctx context.Context, id string) (*StreamStatus, error) {
	return get[StreamStatus](ctx, s.api, "/v1/ssf/status", streamQuery(id))
}

// SetStatus enables, pauses or disables a stream. The reason may be empty. Enabling sends what a paused stream held.
func (s *Streams) SetStatus(
	ctx context.Context, id string, status StreamStatusStatus, why string, options ...CallOption,
) (*StreamStatus, error) {
	change := StreamStatusChange{StreamID: id, Status: status}
	if why != "" {
		change.Reason = &why
	}
	return post[StreamStatus](ctx, s.api, "/v1/ssf/status", change, options)
}

// streamSubject is the body of the requests about subjects.
type streamSubject struct {
	StreamID string            `json:"stream_id"`
	Subject  SubjectIdentifier `json:"subject"`
}

// RemoveSubject removes a subject: its events are no longer sent. A principal includes its credentials.
func (s *Streams) RemoveSubject(
	ctx context.Context, id string, subject SubjectIdentifier, options ...CallOption,
) error {
	_, err := s.api.post(ctx, "/v1/ssf/subjects/remove", streamSubject{id, subject}, options)
	return err
}

// AddSubject adds a removed subject again.
func (s *Streams) AddSubject(
	ctx context.Context, id string, subject SubjectIdentifier, options ...CallOption,
) error {
	_, err := s.api.post(ctx, "/v1/ssf/subjects/add", streamSubject{id, subject}, options)
	return err
}

// Verify sends a verification event, which contains the state unless it is empty. Once in 30 seconds.
func (s *Streams) Verify(ctx context.Context, id, state string, options ...CallOption) error {
	type verification struct {
		StreamID string `json:"stream_id"`
		State    string `json:"state,omitempty"`
	}
	_, err := s.api.post(ctx, "/v1/ssf/verify", verification{id, state}, options)
	return err
}

// Poll acknowledges tokens, then returns the oldest of the others. Without any, it waits for up to 20 seconds: a client with
// a shorter Timeout needs ReturnImmediately.
func (s *Streams) Poll(ctx context.Context, id string, request PollRequest) (*PollAnswer, error) {
	// It is safe to repeat without a key, under which the service would store the answer.
	poll := call{method: http.MethodPost, path: "/v1/ssf/poll/" + segment(id), body: request}
	return decoded[PollAnswer](s.api.perform(ctx, poll))
}
