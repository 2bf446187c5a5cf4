// A foreign client for the integration tests: franz-go behind JSON lines on stdin and stdout.
//
//	franz produce BOOTSTRAP TOPIC CODEC             records from stdin, until its end
//	franz consume BOOTSTRAP TOPIC COUNT             COUNT records of all partitions, from their beginning
//	franz member  BOOTSTRAP TOPIC GROUP             a group member: assignments, and records that it commits,
//	                                                until stdin ends; then it leaves. The environment variable
//	                                                FRANZ_BALANCER says how the group assigns: see balancers
//	franz transact BOOTSTRAP TOPIC ID               transactions with a record in each of 3 partitions; those of odd
//	                                                numbers are aborted
//
// The environment variable FRANZ_ACCESS is JSON of what it needs to get in: see the type access.
//
// Bytes travel as base64, which is what encoding/json makes of them; nil is null.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
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

// access is who the client is, and whom it trusts; empty fields are not used.
type access struct {
	Mechanism, User, Password, Token string
	CA, Certificate, Key             string // files in PEM
	IsToken                          bool   // User and Password are a delegation token
}

func (a access) mechanism() sasl.Mechanism {
	switch a.Mechanism {
	case "PLAIN":
		return plain.Auth{User: a.User, Pass: a.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: a.User, Pass: a.Password, IsToken: a.IsToken}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: a.User, Pass: a.Password, IsToken: a.IsToken}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: a.Token}.AsMechanism()
	case "AWS_MSK_IAM":
		return aws.Auth{AccessKey: a.User, SecretKey: a.Password}.AsManagedStreamingIAMMechanism()
	}
	fail(fmt.Errorf("no mechanism %q", a.Mechanism))
	return nil
}

func (a access) tls() *tls.Config {
	pem, err := os.ReadFile(a.CA)
	if err != nil {
		fail(err)
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(pem)
	if a.Certificate != "" {
		pair, err := tls.LoadX509KeyPair(a.Certificate, a.Key)
		if err != nil {
			fail(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

func newClient(opts ...kgo.Opt) *kgo.Client {
	text := os.Getenv("FRANZ_ACCESS")
	if text != "" {
		var a access
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			fail(err)
		}
		if a.Mechanism != "" {
			opts = append(opts, kgo.SASL(a.mechanism()))
		}
		if a.CA != "" {
			opts = append(opts, kgo.DialTLSConfig(a.tls()))
		}
	} else {
		// Nothing to get wrong: a connection that ends before its first answer is that of a node that dies.
		opts = append(opts, kgo.AlwaysRetryEOF())
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		fail(err)
	}
	if text != "" {
		// Records would wait for a way in until they expire; this says at once that there is none.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := client.Ping(ctx); err != nil {
			fail(err)
		}
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
	client := newClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.DefaultProduceTopic(topic),
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
	client := newClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	for seen := 0; seen < count; {
		seen += poll(ctx, client, out)
		if ctx.Err() != nil {
			fail(fmt.Errorf("%d of %d records when time was up", seen, count))
		}
	}
}

// balancers are by what a group calls them. Without one, franz-go offers its own choice, cooperative-sticky.
var balancers = map[string][]kgo.GroupOpt{
	"":                   {},
	"range":              {kgo.Balancers(kgo.RangeBalancer())},
	"cooperative-sticky": {kgo.Balancers(kgo.CooperativeStickyBalancer())},
	// KIP-848, with the coordinator's assignor uniform.
	"consumer": {kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer()},
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
	name := os.Getenv("FRANZ_BALANCER")
	balancer, known := balancers[name]
	if !known {
		fail(fmt.Errorf("no balancer %q", name))
	}
	opts := []kgo.Opt{kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false))}
	for _, opt := range balancer {
		opts = append(opts, opt)
	}
	client := newClient(opts...)
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

// transactions is how many of them transact makes.
const transactions = 4

func transact(ctx context.Context, bootstrap, topic, id string) {
	client := newClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...), kgo.TransactionalID(id),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer client.Close()
	for i := range transactions {
		if err := client.BeginTransaction(); err != nil {
			fail(err)
		}
		for partition := range int32(3) {
			text := fmt.Sprintf("%s-%d-%d", id, i, partition)
			sent := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(text)})
			if err := sent.FirstErr(); err != nil {
				fail(err)
			}
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(i%2 == 0)); err != nil {
			fail(err)
		}
	}
	fmt.Println("done")
}

func main() {
	if len(os.Args) != 5 {
		fail(fmt.Errorf("usage: franz produce|consume|member|transact BOOTSTRAP TOPIC CODEC|COUNT|GROUP|ID"))
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
	case "transact":
		transact(ctx, bootstrap, topic, last)
	default:
		fail(fmt.Errorf("no verb %q", verb))
	}
}
