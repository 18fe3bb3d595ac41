// Sells a seat in each of thirty shows of a cluster, with redisc, the cluster client of redigo.
//
//	go run cluster.go [HOST [PORT]]
//
// redisc takes the first argument of each command as its key, and so sends each request to the master of its slot.
// Debian has redisc in the package golang-github-mna-redisc-dev; then GO111MODULE=off GOPATH=/usr/share/gocode go run
// finds it.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
)

const (
	plan  = `{"areas":[{"id":"box","rows":[{"label":"1","rank":1,"tier":"gold","seats":"1-40"}]}]}`
	shows = 30
)

// sell sells one seat, under a token that was chosen before the first request. RetryConn follows MOVED while slots move.
func sell(cluster *redisc.Cluster, show string) error {
	connection, err := redisc.RetryConn(cluster.Get(), 3, 100*time.Millisecond)
	if err != nil {
		return err
	}
	defer connection.Close()
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		return err
	}
	token := hex.EncodeToString(random)
	if _, err := connection.Do("SEAT.CREATE", show, plan); err != nil {
		return err
	}
	if _, err := connection.Do("SEAT.HOLD", show, "ann", 1, "TTL", 60000, "TOKEN", token); err != nil {
		return err
	}
	_, err = connection.Do("SEAT.CONFIRM", show, token, "USER", "ann", "ORDER", token)
	return err
}

func run(address string) error {
	dial := []redis.DialOption{redis.DialConnectTimeout(5 * time.Second), redis.DialReadTimeout(5 * time.Second)}
	cluster := &redisc.Cluster{StartupNodes: []string{address}, DialOptions: dial}
	defer cluster.Close()
	if err := cluster.Refresh(); err != nil {
		return err
	}
	for number := 0; number < shows; number++ {
		if err := sell(cluster, fmt.Sprintf("show:%d", number)); err != nil {
			return err
		}
	}
	connection := cluster.Get()
	defer connection.Close()
	// Each master of a new cluster has one range of slots.
	masters, err := redis.Values(connection.Do("CLUSTER", "SLOTS"))
	if err != nil {
		return err
	}
	fmt.Println("sold", shows, "seats in", len(masters), "masters")
	return nil
}

func main() {
	host, port := "127.0.0.1", "6379"
	if len(os.Args) > 1 {
		host = os.Args[1]
	}
	if len(os.Args) > 2 {
		port = os.Args[2]
	}
	if err := run(net.JoinHostPort(host, port)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
