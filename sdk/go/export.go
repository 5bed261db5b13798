package signet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"time"
)

const (
	exportType = "application/x-ndjson"
	// maxLine is above any line of the service: an event of 256 KiB with its envelope.
	maxLine = 4 << 20
)

// errUnended is an answer whose last line has no end.
var errUnended = errors.New("its last line has no end")

// DeadLetterSelection selects dead letters: by IDs, or by Filter.
type DeadLetterSelection struct {
	IDs    []string          `json:"ids,omitempty"`
	Filter *DeadLetterFilter `json:"filter,omitempty"`
	// RatePerSecond is the maximum of replays per second; 500 by default.
	RatePerSecond int64 `json:"rate_per_second,omitempty"`
}

// Export reads all matches with their events in one streamed answer, newest first; two at once per tenant. It buffers at
// most one dead letter and a chunk of the answer. An export that breaks off ends with an error, never as if it were
// complete.
func (d *DeadLetters) Export(ctx context.Context, query DeliveryQuery) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		count := 0
		err := d.export(ctx, query, func(letter DeadLetter) bool {
			count++
			return yield(letter, nil)
		})
		var transport *TransportError
		if errors.As(err, &transport) {
			detail := fmt.Sprintf("the export has broken off after %d dead letters: %s", count, transport.Detail)
			err = &TransportError{transport.Code, detail, transport.Err}
		}
		if err != nil {
			yield(DeadLetter{}, err)
		}
	}
}

// watch cancels a request after a silence. Close it at the end.
type watch struct {
	limited context.Context
	close   context.CancelFunc
	timer   *time.Timer
	limit   time.Duration
}

func newWatch(ctx context.Context, limit time.Duration) *watch {
	limited, cancel := context.WithCancel(ctx)
	return &watch{limited: limited, close: cancel, timer: time.AfterFunc(limit, cancel), limit: limit}
}

// during runs a read. The caller's own time, between reads, does not count.
func (w *watch) during(read func() bool) bool {
	w.timer.Reset(w.limit)
	defer w.timer.Stop()
	return read()
}

// export calls yield until it returns false or the answer has ended. The timeout is that of each read.
func (d *DeadLetters) export(ctx context.Context, query DeliveryQuery, yield func(DeadLetter) bool) error {
	run := d.api.core
	var silence *watch
	response, err := perform(ctx, d.api, call{
		method: http.MethodGet, path: "/v1/webhooks/dlq/export", query: query.values(),
	}, func(ctx context.Context, e exchange) (*http.Response, error) {
		e.header.Set("Accept", exportType)
		// Otherwise net/http removes the length of a compressed answer.
		e.header.Set("Accept-Encoding", "identity")
		silence = newWatch(ctx, run.timeout)
		response, err := run.begin(ctx, silence.limited, e)
		silence.timer.Stop()
		if err != nil {
			silence.close()
		}
		return response, err
	})
	if err != nil {
		return err
	}
	defer silence.close()
	defer response.Body.Close()
	if err := checkFraming(response); err != nil {
		return err
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLines)
	for silence.during(lines.Scan) {
		var letter DeadLetter
		if json.Unmarshal(lines.Bytes(), &letter) != nil {
			return invalidAnswer("a line of the export is not JSON")
		}
		if !yield(letter) {
			return nil
		}
	}
	switch err := lines.Err(); {
	case err == nil:
		return nil
	case errors.Is(err, errUnended) || errors.Is(err, bufio.ErrTooLong):
		return invalidAnswer(err.Error())
	default:
		return transportError(ctx, silence.limited, response.Request.URL, err)
	}
}

// checkFraming rejects an answer that does not say where it ends: a lost connection would look like its end.
func checkFraming(response *http.Response) error {
	mediaType, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if mediaType != exportType {
		return invalidAnswer("the service did not answer with " + exportType)
	}
	if response.ProtoMajor == 1 && response.ContentLength < 0 && len(response.TransferEncoding) == 0 {
		return invalidAnswer("the answer does not say where it ends: something between has changed it")
	}
	return nil
}

// wholeLines is a [bufio.SplitFunc] for lines that all have an end.
func wholeLines(text []byte, atEnd bool) (int, []byte, error) {
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		return end + 1, text[:end], nil
	}
	if atEnd && len(text) > 0 {
		return 0, nil, errUnended
	}
	return 0, nil, nil
}
