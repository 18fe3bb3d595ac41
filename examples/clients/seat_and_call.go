// Sells two seats, makes a call and follows the events of the show, with redigo.
//
//	go run seat_and_call.go [HOST [PORT]]
//
// Debian has redigo in the package golang-github-gomodule-redigo-dev; then GO111MODULE=off GOPATH=/usr/share/gocode
// go run finds it.
package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	show     = "{example}:show"
	pool     = "{example}:pool"
	plan     = `{"areas":[{"id":"box","rows":[{"label":"1","rank":1,"tier":"gold","seats":"1-40"}]}],"events":1000}`
	attempts = 10
)

// client is a connection that is opened again when it breaks.
type client struct {
	address    string
	connection redis.Conn
}

func (c *client) once(command string, arguments []interface{}) (interface{}, error) {
	if c.connection == nil || c.connection.Err() != nil {
		connection, err := redis.Dial("tcp", c.address, redis.DialReadTimeout(5*time.Second))
		if err != nil {
			return nil, err
		}
		c.connection = connection
	}
	return c.connection.Do(command, arguments...)
}

// ask sends a request, and sends it again when the connection breaks before the reply. The first request may have been
// executed. With a token this does no harm: the reply is the same. An error of the server is final.
func (c *client) ask(command string, arguments ...interface{}) (reply interface{}, err error) {
	for attempt := 1; attempt <= attempts; attempt++ {
		reply, err = c.once(command, arguments)
		var refused redis.Error
		if err == nil || errors.As(err, &refused) {
			return reply, err
		}
		time.Sleep(time.Duration(attempt) * 100 * time.Millisecond)
	}
	return nil, err
}

// record makes a map of a flat list of names and values, which is a record in RESP2.
func record(reply interface{}) (map[string]interface{}, error) {
	values, err := redis.Values(reply, nil)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]interface{}, len(values)/2)
	for i := 0; i+1 < len(values); i += 2 {
		name, err := redis.String(values[i], nil)
		if err != nil {
			return nil, err
		}
		fields[name] = values[i+1]
	}
	return fields, nil
}

// sell holds two seats and sells them, both under a token that was chosen before the first request.
func sell(c *client, token string) error {
	if _, err := c.ask("SEAT.CREATE", show, plan); err != nil {
		return err
	}
	reply, err := c.ask("SEAT.HOLD", show, "ann", 2, "TTL", 60000, "TIER", "gold", "TOKEN", token)
	if err != nil {
		return err
	}
	if reply == nil {
		return errors.New("sold out")
	}
	hold, err := record(reply)
	if err != nil {
		return err
	}
	seats, err := redis.Strings(hold["seats"], nil)
	if err != nil {
		return err
	}
	fmt.Println("held", strings.Join(seats, " "))
	sold, err := redis.Int(c.ask("SEAT.CONFIRM", show, token, "USER", "ann", "ORDER", token))
	if err != nil {
		return err
	}
	fmt.Println("sold", sold)
	return nil
}

// call takes a free number for a call, and ends the call.
func call(c *client, token string) error {
	if _, err := c.ask("NUMPOOL.ADD", pool, "5550100", "5550101"); err != nil {
		return err
	}
	if _, err := c.ask("NUMPOOL.REG", pool, "5550100", "5550101", "SWITCH", "sw1"); err != nil {
		return err
	}
	reply, err := c.ask("NUMPOOL.CALL", pool, "TTL", 60000, "LEASE", token)
	if err != nil {
		return err
	}
	if reply == nil {
		return errors.New("all numbers are busy")
	}
	lease, err := record(reply)
	if err != nil {
		return err
	}
	number, err := redis.String(lease["number"], nil)
	if err != nil {
		return err
	}
	fmt.Println("called", number)
	// 1, or 0 if the request was sent twice: the call has ended in both cases.
	if _, err := c.ask("NUMPOOL.HANGUP", pool, number, "LEASE", token); err != nil {
		return err
	}
	fmt.Println("hung up")
	return nil
}

// entriesAfter returns the next entries of the event stream; none if a second passes without one.
func entriesAfter(c *client, last string) ([]interface{}, error) {
	reply, err := c.ask("XREAD", "BLOCK", 1000, "STREAMS", show+":evt", last)
	if err != nil || reply == nil {
		return nil, err
	}
	streams, err := redis.Values(reply, nil)
	if err != nil {
		return nil, err
	}
	stream, err := redis.Values(streams[0], nil)
	if err != nil {
		return nil, err
	}
	return redis.Values(stream[1], nil)
}

// follow reads the event stream until the sale of this token. A service stores the last id, and goes on after it.
func follow(c *client, token string) error {
	last := "0"
	for {
		entries, err := entriesAfter(c, last)
		if err != nil {
			return err
		}
		for _, each := range entries {
			entry, err := redis.Values(each, nil)
			if err != nil {
				return err
			}
			if last, err = redis.String(entry[0], nil); err != nil {
				return err
			}
			fields, err := redis.StringMap(entry[1], nil)
			if err != nil {
				return err
			}
			if fields["token"] != token {
				continue
			}
			fmt.Println("event", fields["event"])
			if fields["event"] == "confirmed" {
				return nil
			}
		}
	}
}

func run(address string) error {
	bytes := make([]byte, 16)
	if _, err := rand.Read(bytes); err != nil {
		return err
	}
	token := hex.EncodeToString(bytes)
	c := &client{address: address}
	for _, step := range []func(*client, string) error{sell, call, follow} {
		if err := step(c, token); err != nil {
			return err
		}
	}
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
