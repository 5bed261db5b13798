module example.com/shop

go 1.26.0

require (
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
	go.etcd.io/bbolt v1.5.0
	golang.org/x/oauth2 v0.38.0
)

require golang.org/x/sys v0.45.0 // indirect
