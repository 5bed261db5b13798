package signet

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"testing"
	"time"
)

type vectorFile struct {
	Tolerance int64 `json:"tolerance_seconds"`
	Future    int64 `json:"future_seconds"`
	Vectors   []struct {
		Name    string      `json:"name"`
		Secrets []string    `json:"secrets"`
		Now     int64       `json:"now_seconds"`
		Body    string      `json:"body_base64"`
		Headers [][2]string `json:"headers"`
		Expect  outcome     `json:"expect"`
	} `json:"vectors"`
}

type outcome struct {
	Result string           `json:"result"`
	Code   VerificationCode `json:"code,omitempty"`
	ID     *string          `json:"id"`
	Scheme Scheme           `json:"scheme,omitempty"`
}

func outcomeOf(payload *Payload, err error) outcome {
	var rejection *VerificationError
	switch {
	case errors.As(err, &rejection):
		return outcome{Result: "refused", Code: rejection.Code}
	case errors.Is(err, ErrSecret):
		return outcome{Result: "misconfigured"}
	case payload.ID == "":
		return outcome{Result: "accepted", Scheme: payload.Scheme}
	default:
		return outcome{Result: "accepted", ID: &payload.ID, Scheme: payload.Scheme}
	}
}

// TestVectors compares Verify with the vectors that receivers in all languages share.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../../test/vectors/webhook-signatures.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the vectors are not part of the module: run this test in a clone")
	}
	if err != nil {
		t.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, vector := range file.Vectors {
		body, err := base64.StdEncoding.DecodeString(vector.Body)
		if err != nil {
			t.Fatal(err)
		}
		// As from a server, and as from a gateway that passes names in lower case.
		canonical, raw := http.Header{}, http.Header{}
		for _, header := range vector.Headers {
			canonical.Add(header[0], header[1])
			raw[header[0]] = append(raw[header[0]], header[1])
		}
		for _, headers := range []http.Header{canonical, raw} {
			payload, err := Verify(body, headers, vector.Secrets, VerifyOptions{
				Now:       time.Unix(vector.Now, 0),
				Tolerance: time.Duration(file.Tolerance) * time.Second,
				Future:    time.Duration(file.Future) * time.Second,
			})
			found, _ := json.Marshal(outcomeOf(payload, err))
			expected, _ := json.Marshal(vector.Expect)
			if string(found) != string(expected) {
				t.Errorf("%s: %s, not %s", vector.Name, found, expected)
			}
		}
	}
	t.Logf("%d vectors", len(file.Vectors))
}

// The limits of the vectors are the defaults.
func TestDefaultLimits(t *testing.T) {
	now := time.Now()
	body := func(age time.Duration) ([]byte, http.Header) {
		at := now.Add(-age)
		text, _ := json.Marshal(map[string]any{"id": "evt_1", "sent_at": at.Unix()})
		headers, err := Sign(testSecret, "evt_1", at, text)
		if err != nil {
			t.Fatal(err)
		}
		return text, headers
	}
	for age, expected := range map[time.Duration]VerificationCode{
		0:                  "",
		299 * time.Second:  "",
		302 * time.Second:  PayloadExpired,
		-59 * time.Second:  "",
		-62 * time.Second:  TimestampMismatch,
		-1e6 * time.Second: TimestampMismatch,
	} {
		text, headers := body(age)
		_, err := Verify(text, headers, []string{testSecret}, VerifyOptions{Now: now})
		if found := outcomeOf(&Payload{}, err).Code; found != expected {
			t.Errorf("an age of %v: %q, not %q", age, found, expected)
		}
	}
}
