package signet

import "encoding/json"

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

// itemsOf returns an answer that is a list.
func itemsOf[T any](answer *[]T, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	return *answer, nil
}
