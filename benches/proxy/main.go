// A TCP proxy that makes loopback look like a network: each byte arrives a fixed time after it was
// sent, and each direction of each connection carries a fixed rate at most. It looks at no byte.
//
//	proxy -listen 127.0.0.1:7071 -to 127.0.0.1:7070 -delay 10ms -rate 83886080
//
// What must hold: bytes keep their order, a delay holds back no later byte's delay (they overlap, as
// on a wire), and an end of stream arrives like a byte. It runs until it is killed.
package main

import (
	"flag"
	"log"
	"net"
	"sync"
	"time"
)

// A chunk is small beside what a connection carries in a delay, large beside a system call.
const chunkBytes = 256 << 10

// Bytes on the way in one direction: enough for 80 MiB/s over 200 ms, and a bound on memory.
const windowChunks = 64

var chunks = sync.Pool{New: func() any { return new([chunkBytes]byte) }}

type chunk struct {
	data *[chunkBytes]byte
	size int
	due  time.Time
}

// carry moves one direction of one connection.
func carry(from, to *net.TCPConn, delay time.Duration, rate float64) {
	wire := make(chan chunk, windowChunks)
	go func() {
		defer close(wire)
		var free time.Time // when the link has carried all before
		for {
			data := chunks.Get().(*[chunkBytes]byte)
			size, err := from.Read(data[:])
			if size > 0 {
				now := time.Now()
				if free.Before(now) {
					free = now
				}
				if rate > 0 {
					free = free.Add(time.Duration(float64(size) / rate * 1e9))
				}
				wire <- chunk{data, size, free.Add(delay)}
			}
			if err != nil {
				time.Sleep(delay)
				return
			}
		}
	}()
	broken := false
	for piece := range wire {
		if !broken {
			if wait := time.Until(piece.due); wait > 0 {
				time.Sleep(wait)
			}
			_, err := to.Write(piece.data[:piece.size])
			if err != nil {
				broken = true
				from.CloseRead()
			}
		}
		chunks.Put(piece.data)
	}
	to.CloseWrite()
}

func serve(client *net.TCPConn, to string, delay time.Duration, rate float64) {
	defer client.Close()
	// A handshake is a round trip too.
	time.Sleep(2 * delay)
	dialled, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	server := dialled.(*net.TCPConn)
	defer server.Close()
	back := make(chan struct{})
	go func() {
		carry(server, client, delay, rate)
		close(back)
	}()
	carry(client, server, delay, rate)
	<-back
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	to := flag.String("to", "", "address to pass bytes on to")
	delay := flag.Duration("delay", 0, "time a byte takes, each way")
	rate := flag.Float64("rate", 0, "bytes a second of each direction of each connection; 0 for no limit")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(client.(*net.TCPConn), *to, *delay, *rate)
	}
}
