module github.com/signet-delivery/signet/sdk/go

go 1.23
