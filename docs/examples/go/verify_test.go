package webhooks

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"testing"
)

type expectation struct {
	Result string  `json:"result"`
	Code   string  `json:"code"`
	ID     *string `json:"id"`
	Scheme string  `json:"scheme"`
}

type vectorFile struct {
	Tolerance int64 `json:"tolerance_seconds"`
	Future    int64 `json:"future_seconds"`
	Vectors   []struct {
		Name    string      `json:"name"`
		Secrets []string    `json:"secrets"`
		Now     int64       `json:"now_seconds"`
		Body    string      `json:"body_base64"`
		Headers [][2]string `json:"headers"`
		Expect  expectation `json:"expect"`
	} `json:"vectors"`
}

func outcome(verified *Verified, err error) expectation {
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		return expectation{Result: "refused", Code: refused.Code}
	case err != nil:
		return expectation{Result: "misconfigured"}
	default:
		return expectation{Result: "accepted", ID: verified.ID, Scheme: verified.Scheme}
	}
}

// TestVectors holds Verify to test/vectors/webhook-signatures.json.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../../../test/vectors/webhook-signatures.json")
	if err != nil {
		t.Fatal(err)
	}
	var file vectorFile
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, vector := range file.Vectors {
		body, _ := base64.StdEncoding.DecodeString(vector.Body)
		headers := http.Header{}
		for _, header := range vector.Headers {
			headers.Add(header[0], header[1])
		}
		limits := Limits{Tolerance: file.Tolerance, Future: file.Future}
		found, _ := json.Marshal(outcome(Verify(body, headers, vector.Secrets, vector.Now, limits)))
		expected, _ := json.Marshal(vector.Expect)
		if string(found) != string(expected) {
			t.Errorf("%s: %s, not %s", vector.Name, found, expected)
		}
	}
	t.Logf("%d vectors", len(file.Vectors))
}
