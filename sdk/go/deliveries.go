package signet

import (
	"context"
	"net/url"
)

const (
	deliveriesPath  = "/v1/webhooks/deliveries"
	deadLettersPath = "/v1/webhooks/dlq"
	replaysPath     = "/v1/webhooks/replays"
)

// Deliveries are the deliveries and their attempts.
type Deliveries struct{ api *transport }

func deliveryPath(id string) string { return deliveriesPath + "/" + segment(id) }

// List lists deliveries, newest first.
func (d *Deliveries) List(query DeliveryQuery) List[Delivery] {
	return List[Delivery]{d.api, deliveriesPath, query.values()}
}

// Get returns a delivery.
func (d *Deliveries) Get(ctx context.Context, id string) (*Delivery, error) {
	return get[Delivery](ctx, d.api, deliveryPath(id), nil)
}

// Attempts lists the attempts of a delivery, oldest first.
func (d *Deliveries) Attempts(id string) List[Attempt] {
	return List[Attempt]{d.api, deliveryPath(id) + "/attempts", nil}
}

// Retry makes the next attempt now. It counts as that attempt, and later ones keep their times.
func (d *Deliveries) Retry(ctx context.Context, id string, options ...CallOption) (*Delivery, error) {
	return post[Delivery](ctx, d.api, deliveryPath(id)+"/retry", nil, options)
}

// Resend starts a new cycle of 17 attempts with the same webhook-id. It fails with [CodeInvalidState] unless the delivery is
// delivered, cancelled or expired.
func (d *Deliveries) Resend(ctx context.Context, id string, options ...CallOption) (*Delivery, error) {
	return post[Delivery](ctx, d.api, deliveryPath(id)+"/resend", nil, options)
}

// Cancel cancels further attempts. It fails with [CodeInvalidState] if the delivery has ended.
func (d *Deliveries) Cancel(ctx context.Context, id string, options ...CallOption) (*Delivery, error) {
	return post[Delivery](ctx, d.api, deliveryPath(id)+"/cancel", nil, options)
}

// Stats returns the last 24 hours, oldest first; of all endpoints for an empty id. They are up to 30 seconds stale.
func (d *Deliveries) Stats(ctx context.Context, endpointID string) ([]DeliveryHour, error) {
	query := url.Values{}
	set(query, "endpoint_id", endpointID)
	return dataOf(get[data[DeliveryHour]](ctx, d.api, "/v1/webhooks/stats", query))
}

// Usage returns the tenant's usage of each UTC day that has any, oldest first. The days are YYYY-MM-DD; if they are empty,
// it returns the last 30 days.
func (d *Deliveries) Usage(ctx context.Context, firstDay, lastDay string) ([]Usage, error) {
	query := url.Values{}
	set(query, "from", firstDay)
	set(query, "to", lastDay)
	return dataOf(get[data[Usage]](ctx, d.api, "/v1/usage", query))
}

// DeadLetters are deliveries that have failed 17 times, for 7 days. A dead letter's id is its delivery's.
type DeadLetters struct{ api *transport }

// List lists dead letters in the order of their death, newest first.
func (d *DeadLetters) List(query DeliveryQuery) List[DeadLetter] {
	return List[DeadLetter]{d.api, deadLettersPath, query.values()}
}

// Groups counts dead letters by endpoint, reason and class of failure; of all endpoints for an empty id.
func (d *DeadLetters) Groups(endpointID string) List[DeadLetterGroup] {
	query := url.Values{}
	set(query, "endpoint_id", endpointID)
	return List[DeadLetterGroup]{d.api, deadLettersPath + "/groups", query}
}

// Summary returns how long the queue is, and how old; of all endpoints for an empty id.
func (d *DeadLetters) Summary(ctx context.Context, endpointID string) (*DeadLetterSummary, error) {
	query := url.Values{}
	set(query, "endpoint_id", endpointID)
	return get[DeadLetterSummary](ctx, d.api, deadLettersPath+"/summary", query)
}

// Get returns a dead letter with its event.
func (d *DeadLetters) Get(ctx context.Context, id string) (*DeadLetter, error) {
	return get[DeadLetter](ctx, d.api, deadLettersPath+"/"+segment(id), nil)
}

// Replay starts a new cycle of 17 attempts with the same event id. It fails with [CodeInvalidState] if the delivery is not,
// or no longer, a dead letter, or its endpoint is disabled or deleted.
func (d *DeadLetters) Replay(ctx context.Context, id string, options ...CallOption) (*Delivery, error) {
	return post[Delivery](ctx, d.api, deadLettersPath+"/"+segment(id)+"/replay", nil, options)
}

// DeadLetterSelection selects dead letters: by IDs, or by Filter.
type DeadLetterSelection struct {
	IDs    []string          `json:"ids,omitempty"`
	Filter *DeadLetterFilter `json:"filter,omitempty"`
	// RatePerSecond is the maximum of replays per second; 500 by default.
	RatePerSecond int64 `json:"rate_per_second,omitempty"`
}

// CountReplay counts the dead letters that [DeadLetters.ReplayAll] would replay, and those of them that would fail now.
func (d *DeadLetters) CountReplay(ctx context.Context, which DeadLetterSelection) (*ReplayCount, error) {
	which.RatePerSecond = 0
	return post[ReplayCount](ctx, d.api, deadLettersPath+"/replay", struct {
		DeadLetterSelection
		DryRun bool `json:"dry_run"`
	}{which, true}, nil)
}

// ReplayAll replays many as a job: those now in the queue, at most 10,000 by id.
func (d *DeadLetters) ReplayAll(
	ctx context.Context, which DeadLetterSelection, options ...CallOption,
) (*ReplayJob, error) {
	return post[ReplayJob](ctx, d.api, deadLettersPath+"/replay", which, options)
}

// Replays are jobs that deliver many again.
type Replays struct{ api *transport }

func replayPath(id string) string { return replaysPath + "/" + segment(id) }

// Count counts the deliveries that [Replays.Create] would replay, and those of them that would fail now.
func (r *Replays) Count(ctx context.Context, which NewReplay) (*ReplayCount, error) {
	which.RatePerSecond = 0
	return post[ReplayCount](ctx, r.api, replaysPath, struct {
		NewReplay
		DryRun bool `json:"dry_run"`
	}{which, true}, nil)
}

// Create replays many deliveries as a job: retries are attempted now, others get a new cycle. By default, it selects dead
// letters and retries.
func (r *Replays) Create(ctx context.Context, which NewReplay, options ...CallOption) (*ReplayJob, error) {
	return post[ReplayJob](ctx, r.api, replaysPath, which, options)
}

// List lists jobs, newest first.
func (r *Replays) List() List[ReplayJob] { return List[ReplayJob]{r.api, replaysPath, nil} }

// Get returns a job.
func (r *Replays) Get(ctx context.Context, id string) (*ReplayJob, error) {
	return get[ReplayJob](ctx, r.api, replayPath(id), nil)
}

// Outcomes counts what the replays of a job have come to since.
func (r *Replays) Outcomes(ctx context.Context, id string) (*ReplayOutcomes, error) {
	return get[ReplayOutcomes](ctx, r.api, replayPath(id)+"/outcomes", nil)
}

// Items lists the items of a job with their results.
func (r *Replays) Items(id string, query ReplayItemQuery) List[ReplayItem] {
	return List[ReplayItem]{r.api, replayPath(id) + "/items", query.values()}
}

// Pause pauses a job.
func (r *Replays) Pause(ctx context.Context, id string, options ...CallOption) (*ReplayJob, error) {
	return post[ReplayJob](ctx, r.api, replayPath(id)+"/pause", nil, options)
}

// Resume resumes a job.
func (r *Replays) Resume(ctx context.Context, id string, options ...CallOption) (*ReplayJob, error) {
	return post[ReplayJob](ctx, r.api, replayPath(id)+"/resume", nil, options)
}

// Cancel cancels a job. Replayed items stay replayed; the rest stays as it is.
func (r *Replays) Cancel(ctx context.Context, id string, options ...CallOption) (*ReplayJob, error) {
	return post[ReplayJob](ctx, r.api, replayPath(id)+"/cancel", nil, options)
}
