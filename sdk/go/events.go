package signet

import (
	"context"
	"encoding/json"
)

const eventsPath = "/v1/events"

// Events publishes and reads events.
type Events struct{ api *transport }

// Publish publishes one event. It is durable once this returns without an error.
func (e *Events) Publish(ctx context.Context, event NewEvent, options ...CallOption) (*AcceptedEvent, error) {
	return post[AcceptedEvent](ctx, e.api, eventsPath, event, options)
}

// BatchItem is the result of one event of a batch: Event, or Err. Items are independent.
type BatchItem struct {
	// Index is the event's place in the batch.
	Index int
	// Event is nil if the event was rejected.
	Event *AcceptedEvent
	// Replayed says that the result is that of an earlier event with the same ID.
	Replayed bool
	// Err is nil if the event was accepted.
	Err *APIError
}

// UnmarshalJSON reads an item of the answer.
func (b *BatchItem) UnmarshalJSON(text []byte) error {
	var item struct {
		Index    int             `json:"index"`
		Replayed bool            `json:"replayed"`
		Error    json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(text, &item); err != nil {
		return err
	}
	*b = BatchItem{Index: item.Index, Replayed: item.Replayed}
	if item.Error != nil {
		var status struct {
			Status int `json:"status"`
		}
		if err := json.Unmarshal(item.Error, &status); err != nil {
			return err
		}
		b.Err = problemError(status.Status, item.Error)
		return nil
	}
	b.Event = new(AcceptedEvent)
	return json.Unmarshal(text, b.Event)
}

// PublishBatch publishes up to 1,000 events, 4 MiB, in one request. Check the Err of each item.
func (e *Events) PublishBatch(
	ctx context.Context, events []NewEvent, options ...CallOption,
) ([]BatchItem, error) {
	type batch struct {
		Events []NewEvent `json:"events"`
	}
	return dataOf(post[data[BatchItem]](ctx, e.api, eventsPath, batch{events}, options))
}

// List lists events, newest first.
func (e *Events) List(query EventQuery) List[StoredEvent] {
	return List[StoredEvent]{e.api, eventsPath, query.values()}
}

// Get returns an event.
func (e *Events) Get(ctx context.Context, id string) (*StoredEvent, error) {
	return get[StoredEvent](ctx, e.api, eventsPath+"/"+segment(id), nil)
}

// EraseContent destroys the event's data and the receivers' answers permanently. Waiting deliveries are cancelled.
func (e *Events) EraseContent(ctx context.Context, id string) error {
	return e.api.remove(ctx, eventsPath+"/"+segment(id)+"/content")
}

// data is an answer with one list.
type data[T any] struct {
	Data []T `json:"data"`
}

func dataOf[T any](answer *data[T], err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return answer.Data, nil
}
