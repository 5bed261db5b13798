// Command shop publishes an event for each order, and sends a receipt for each order.paid that it receives.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// region types
const (
	maxBytes = 524_288
	idle     = 500 * time.Millisecond
	again    = time.Minute
)

var seen, todo = []byte("seen"), []byte("todo")

type event struct {
	Type   string          `json:"type"`
	Source string          `json:"source"`
	Data   json.RawMessage `json:"data"`
}

type shop struct {
	webhook *standardwebhooks.Webhook
	inbox   *bolt.DB
	// signet sends every request with a token, which it renews before it expires.
	signet *http.Client
	url    string
}

// endregion

// region hook
func (s *shop) hook(response http.ResponseWriter, request *http.Request) {
	// The signature covers the raw bytes.
	body, err := io.ReadAll(http.MaxBytesReader(response, request.Body, maxBytes))
	if err != nil {
		http.Error(response, "the body is too large or incomplete", http.StatusRequestEntityTooLarge)
		return
	}
	var got event
	if s.webhook.Verify(body, request.Header) != nil || json.Unmarshal(body, &got) != nil {
		http.Error(response, "invalid signature", http.StatusUnauthorized)
		return
	}
	if got.Type == "ping" {
		response.Write(got.Data) // its challenge
		return
	}
	if err := s.store([]byte(request.Header.Get("webhook-id")), body); err != nil {
		http.Error(response, "the inbox fails", http.StatusInternalServerError)
	}
}

// store keeps an event. A repeated delivery has the same id and changes nothing.
func (s *shop) store(id, body []byte) error {
	return s.inbox.Update(func(tx *bolt.Tx) error {
		if tx.Bucket(seen).Get(id) != nil {
			return nil
		}
		return errors.Join(
			tx.Bucket(seen).Put(id, []byte(time.Now().Format(time.RFC3339))),
			tx.Bucket(todo).Put(id, body),
		)
	})
}

// endregion

// region orders
func (s *shop) orders(response http.ResponseWriter, request *http.Request) {
	var order struct{ Item string }
	if err := json.NewDecoder(http.MaxBytesReader(response, request.Body, maxBytes)).Decode(&order); err != nil {
		http.Error(response, "an order is JSON", http.StatusBadRequest)
		return
	}
	id := rand.Text()
	// Repeating it with the same id within a day publishes nothing more.
	var accepted struct{ ID string }
	data := map[string]string{"order": id, "item": order.Item}
	if _, err := s.call("POST", "/v1/events", map[string]any{"id": id, "type": "order.paid", "data": data}, &accepted); err != nil {
		http.Error(response, err.Error(), http.StatusBadGateway)
		return
	}
	response.Header().Set("Content-Type", "application/json")
	response.WriteHeader(http.StatusCreated)
	json.NewEncoder(response).Encode(map[string]string{"order": id, "event": accepted.ID})
}

// call sends a request to the API and decodes the answer. It also returns the status of an error.
func (s *shop) call(method, path string, body, answer any) (int, error) {
	var text bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&text).Encode(body); err != nil {
			return 0, err
		}
	}
	request, err := http.NewRequest(method, s.url+path, &text)
	if err != nil {
		return 0, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := s.signet.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		return response.StatusCode, fmt.Errorf("%s %s answers %s", method, path, response.Status)
	}
	return response.StatusCode, json.NewDecoder(response.Body).Decode(answer)
}

// endregion

// region handle
func (s *shop) handle(body []byte) error {
	var got event
	if err := json.Unmarshal(body, &got); err != nil {
		return err
	}
	switch {
	case got.Type == "order.paid":
		var data struct{ Order string }
		if err := json.Unmarshal(got.Data, &data); err != nil {
			return err
		}
		fmt.Println("receipt for order", data.Order)
	case got.Type == "delivery.dead_lettered" && got.Source == "service":
		var data struct {
			DeliveryIDs []string `json:"delivery_ids"`
		}
		if err := json.Unmarshal(got.Data, &data); err != nil {
			return err
		}
		for _, id := range data.DeliveryIDs {
			if err := s.replayOnce(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// replayOnce replays a dead letter once. If it fails again, a person has to look at its receiver.
func (s *shop) replayOnce(id string) error {
	var letter struct {
		Cycle     int    `json:"cycle"`
		Reason    string `json:"reason"`
		Endpoint  string `json:"endpoint_id"`
		LastError string `json:"last_error"`
	}
	status, err := s.call("GET", "/v1/webhooks/dlq/"+id, nil, &letter)
	if err == nil {
		if letter.Cycle > 1 || letter.Reason != "attempts_exhausted" {
			log.Printf("dead letter %s of %s: %s", id, letter.Endpoint, letter.LastError)
			return nil
		}
		status, err = s.call("POST", "/v1/webhooks/dlq/"+id+"/replay", nil, &letter)
	}
	switch status {
	case http.StatusNotFound, http.StatusConflict, http.StatusGone:
		return nil // It is no longer a dead letter: somebody was faster, or its week has ended.
	}
	if err == nil {
		fmt.Println("replayed", id)
	}
	return err
}

// endregion

// region work
// work handles stored events until the process ends.
func (s *shop) work() {
	due := map[string]time.Time{}
	for {
		time.Sleep(idle)
		waiting := map[string][]byte{}
		s.inbox.View(func(tx *bolt.Tx) error {
			return tx.Bucket(todo).ForEach(func(id, body []byte) error {
				waiting[string(id)] = bytes.Clone(body)
				return nil
			})
		})
		for id, body := range waiting {
			if time.Now().Before(due[id]) {
				continue
			}
			if err := s.handle(body); err != nil {
				log.Printf("%s is handled again in a minute: %v", id, err)
				due[id] = time.Now().Add(again)
				continue
			}
			delete(due, id)
			s.inbox.Update(func(tx *bolt.Tx) error { return tx.Bucket(todo).Delete([]byte(id)) })
		}
	}
}

// endregion

// region main
func main() {
	webhook, err := standardwebhooks.NewWebhook(os.Getenv("WEBHOOK_SECRET"))
	if err != nil {
		log.Fatal(err)
	}
	inbox, err := bolt.Open("shop.db", 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		log.Fatal(err)
	}
	err = inbox.Update(func(tx *bolt.Tx) error {
		_, first := tx.CreateBucketIfNotExists(seen)
		_, second := tx.CreateBucketIfNotExists(todo)
		return errors.Join(first, second)
	})
	if err != nil {
		log.Fatal(err)
	}
	url := os.Getenv("SIGNET_URL")
	credentials := clientcredentials.Config{
		ClientID:     os.Getenv("SIGNET_CLIENT_ID"),
		ClientSecret: os.Getenv("SIGNET_CLIENT_SECRET"),
		TokenURL:     url + "/v1/auth/token",
		AuthStyle:    oauth2.AuthStyleInParams,
	}
	signet := credentials.Client(context.Background())
	signet.Timeout = 10 * time.Second
	s := &shop{webhook: webhook, inbox: inbox, signet: signet, url: url}
	go s.work()
	http.HandleFunc("POST /hook", s.hook)
	http.HandleFunc("POST /orders", s.orders)
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), ReadTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

// endregion
