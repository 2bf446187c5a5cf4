// A foreign client for the integration tests: franz-go behind JSON lines on stdin and stdout.
//
//	franz produce BOOTSTRAP TOPIC CODEC             records from stdin, until its end
//	franz consume BOOTSTRAP TOPIC COUNT             COUNT records of all partitions, from their beginning
//	franz member  BOOTSTRAP TOPIC GROUP             a group member: assignments, and records that it commits,
//	                                                until stdin ends; then it leaves
//
// Bytes travel as base64, which is what encoding/json makes of them; nil is null.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

type record struct {
	Partition *int32   `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp *int64   `json:"timestamp"`
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []header `json:"headers"`
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// printer writes one JSON value a line; callbacks of the group run beside the poll loop.
type printer struct {
	sync.Mutex
	*json.Encoder
}

func (p *printer) line(v any) {
	p.Lock()
	defer p.Unlock()
	if err := p.Encode(v); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "franz:", err)
	os.Exit(1)
}

func newClient(opts ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		fail(err)
	}
	return client
}

func shown(r *kgo.Record) record {
	stamp := r.Timestamp.UnixMilli()
	out := record{&r.Partition, r.Offset, &stamp, r.Key, r.Value, []header{}}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, header{h.Key, h.Value})
	}
	return out
}

// pick sends a record to the partition it names, and any other by murmur2 as the Java client does.
func pick(topic string) kgo.Partitioner {
	hashed := kgo.StickyKeyPartitioner(nil).ForTopic(topic)
	return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
		return func(r *kgo.Record, n int) int {
			if r.Partition >= 0 {
				return int(r.Partition)
			}
			return hashed.Partition(r, n)
		}
	})
}

func produce(ctx context.Context, bootstrap, topic, codec string) {
	client := newClient(kgo.SeedBrokers(bootstrap), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(codecs[codec]), kgo.RecordPartitioner(pick(topic)))
	defer client.Close()
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var line record
		if err := in.Decode(&line); err == io.EOF {
			break
		} else if err != nil {
			fail(err)
		}
		r := &kgo.Record{Key: line.Key, Value: line.Value, Partition: -1}
		if line.Partition != nil {
			r.Partition = *line.Partition
		}
		if line.Timestamp != nil {
			r.Timestamp = time.UnixMilli(*line.Timestamp)
		}
		for _, h := range line.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				fail(err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		fail(err)
	}
}

// poll prints what one poll gives, and says how many records that was.
func poll(ctx context.Context, client *kgo.Client, out *printer) int {
	fetches := client.PollFetches(ctx)
	for _, e := range fetches.Errors() {
		if ctx.Err() == nil {
			fail(fmt.Errorf("%s[%d]: %w", e.Topic, e.Partition, e.Err))
		}
	}
	fetches.EachRecord(func(r *kgo.Record) { out.line(shown(r)) })
	return fetches.NumRecords()
}

func consume(ctx context.Context, bootstrap, topic string, count int, out *printer) {
	client := newClient(kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	for seen := 0; seen < count; {
		seen += poll(ctx, client, out)
		if ctx.Err() != nil {
			fail(fmt.Errorf("%d of %d records when time was up", seen, count))
		}
	}
}

func member(ctx context.Context, bootstrap, topic, group string, out *printer) {
	owned, mu := map[int32]bool{}, sync.Mutex{}
	change := func(to bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, moved map[string][]int32) {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range moved[topic] {
				if to {
					owned[p] = true
				} else {
					delete(owned, p)
				}
			}
			all := []int32{}
			for p := range owned {
				all = append(all, p)
			}
			out.line(map[string][]int32{"assigned": all})
		}
	}
	client := newClient(kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))
	polling, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for polling.Err() == nil {
		if poll(polling, client, out) == 0 {
			continue
		}
		if err := client.CommitUncommittedOffsets(ctx); err != nil {
			fail(err)
		}
	}
	client.Close()
}

func main() {
	if len(os.Args) != 5 {
		fail(fmt.Errorf("usage: franz produce|consume|member BOOTSTRAP TOPIC CODEC|COUNT|GROUP"))
	}
	// A test that is gone must not leave this behind.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	stdout := bufio.NewWriter(os.Stdout)
	defer stdout.Flush()
	verb, bootstrap, topic, last := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	switch verb {
	case "produce":
		if codecs[last] == (kgo.CompressionCodec{}) && last != "none" {
			fail(fmt.Errorf("no codec %q", last))
		}
		produce(ctx, bootstrap, topic, last)
	case "consume":
		count, err := strconv.Atoi(last)
		if err != nil {
			fail(err)
		}
		consume(ctx, bootstrap, topic, count, &printer{Encoder: json.NewEncoder(stdout)})
	case "member":
		// Unbuffered: the test watches the lines come.
		member(ctx, bootstrap, topic, last, &printer{Encoder: json.NewEncoder(os.Stdout)})
	default:
		fail(fmt.Errorf("no verb %q", verb))
	}
}
