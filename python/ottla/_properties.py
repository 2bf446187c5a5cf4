"""The properties of each client, as keywords. Written by scripts/properties.py from crates/engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypedDict

from ottla._assignors import Assignor
from ottla._ottla import Keys


class ClientProperties(TypedDict, total=False):
    """Properties of every client, with underscores where Kafka's names have dots."""

    client_id: str | None
    """Name of this client in brokers' logs, metrics and quotas. Without one each client gets a name of its own:
    producer-1, consumer-GROUP-1, adminclient-1 and so on."""
    security_protocol: str | None
    """Protocol of connections: PLAINTEXT, SSL for TLS, and SASL_PLAINTEXT or SASL_SSL to authenticate. Default:
    PLAINTEXT."""
    request_timeout_ms: int | None
    """How long a request waits for its response before its connection is closed. Default: 30000."""
    default_api_timeout_ms: int | None
    """Deadline of calls without a timeout of their own. Default: 60000."""
    retry_backoff_ms: int | None
    """First pause before a retry; it doubles with each failure, with 20 % jitter. Default: 100."""
    retry_backoff_max_ms: int | None
    """Longest pause before a retry. Default: 1000."""
    reconnect_backoff_ms: int | None
    """First pause before a reconnect; it doubles with each failure, with 20 % jitter. Default: 50."""
    reconnect_backoff_max_ms: int | None
    """Longest pause before a reconnect. Default: 1000."""
    socket_connection_setup_timeout_ms: int | None
    """How long a new connection may take to be ready for requests; it doubles with each failure. Default: 10000."""
    socket_connection_setup_timeout_max_ms: int | None
    """The longest that a new connection may take to be ready for requests. Default: 30000."""
    api_version_request: bool | None
    """Whether to request API versions from brokers. If not, broker.version.fallback names the version. Default:
    true."""
    api_version_request_timeout_ms: int | None
    """How long a broker may take to return its API versions. A broker that takes more than 2 s is probed on another
    connection first, unless broker.version.fallback is given: it may be Kafka 0.9, which never returns them. Default:
    10000."""
    api_version_fallback_ms: int | None
    """How long the client remembers the version of a broker that returns no API versions. Default: 1200000."""
    broker_version_fallback: str | None
    """Version of a broker that does not return its API versions: 0.8.2 or 0.9.0. Not given: the client finds it out on
    another connection. A release since 0.10 makes such a broker an error, because those releases return them."""
    metadata_max_age_ms: int | None
    """Age at which the metadata of the cluster is refreshed even if nothing seems to have changed. Default: 300000."""
    receive_message_max_bytes: int | None
    """Most bytes of one response. The client closes the connection of a broker that announces more. Default:
    104857600."""
    receive_buffer_bytes: int | None
    """Size of the sockets' receive buffers; -1 leaves it to the system. Default: -1."""
    send_buffer_bytes: int | None
    """Size of the sockets' send buffers; -1 leaves it to the system. Default: -1."""
    socket_keepalive_enable: bool | None
    """Whether the system probes idle connections (SO_KEEPALIVE) to notice brokers that vanished. Default: true."""
    metrics_sample_window_ms: int | None
    """How long a sample of metrics lasts. Rates, averages and maxima are about the last samples. Default: 30000."""
    metrics_num_samples: int | None
    """How many samples of metrics count. Default: 2."""
    enable_metrics_push: bool | None
    """Whether to push metrics to brokers that subscribe to them (KIP-714). Only brokers with a plugin do. Default:
    true."""
    metrics_interval_ms: int | None
    """How often on_metrics is called, where that is given. Default: 60000."""
    close_interrupt_timeout_ms: int | None
    """How long leaving a with block may take after KeyboardInterrupt, SystemExit or asyncio.CancelledError. A
    producer's undelivered records fail then. Default: 1000."""
    sasl_mechanism: str | None
    """Authentication mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, AWS_MSK_IAM or GSSAPI. Also written
    sasl.mechanisms."""
    sasl_username: str | None
    """User name for PLAIN and SCRAM."""
    sasl_password: str | None
    """Password for PLAIN and SCRAM."""
    sasl_jaas_config: str | None
    """The login of a Java client: of PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule, Krb5LoginModule or
    IAMLoginModule. It is read, and no class is loaded."""
    sasl_allow_plaintext: bool | None
    """Whether PLAIN, OAUTHBEARER and AWS_MSK_IAM may be used without TLS, where everybody on the way can read passwords
    and tokens. Default: false."""
    sasl_kerberos_service_name: str | None
    """The service name of the brokers' Kerberos principals. Default: kafka."""
    sasl_kerberos_domain_name: str | None
    """The host in the brokers' Kerberos principals; left out, that of each broker's address."""
    sasl_kerberos_principal: str | None
    """The Kerberos principal of this client; left out, that of the credentials cache or the keytab."""
    sasl_kerberos_keytab: str | None
    """A keytab to get tickets with; left out, the credentials cache must have some."""
    sasl_oauthbearer_method: Literal["default", "oidc"] | None
    """Source of OAUTHBEARER tokens: default (sasl_token, or the login of sasl.jaas.config) or oidc (a token endpoint).
    Default: default."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """The token endpoint, an https URL. Plain http is taken for loopback addresses, with sasl.allow.plaintext."""
    sasl_oauthbearer_grant_type: str | None
    """Grant type for the token endpoint: client_credentials, or urn:ietf:params:oauth:grant-type:jwt-bearer."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """The client's id at the token endpoint."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """The client's secret at the token endpoint."""
    sasl_oauthbearer_scope: str | None
    """The scope to request."""
    sasl_oauthbearer_extensions: str | None
    """Extensions that are sent to the broker with the token: name=value, separated by commas."""
    sasl_oauthbearer_assertion_file: str | None
    """A file with the assertion of a JWT bearer grant, made elsewhere."""
    sasl_oauthbearer_assertion_private_key_file: str | None
    """A file with the private key that signs assertions: PEM, PKCS #8, not encrypted."""
    sasl_oauthbearer_assertion_algorithm: str | None
    """How assertions are signed. Default: RS256."""
    sasl_oauthbearer_assertion_claim_aud: str | None
    """The audience of assertions (aud)."""
    sasl_oauthbearer_assertion_claim_iss: str | None
    """The issuer of assertions (iss)."""
    sasl_oauthbearer_assertion_claim_sub: str | None
    """The subject of assertions (sub)."""
    sasl_oauthbearer_assertion_claim_exp_seconds: int | None
    """Seconds for which assertions are valid. Default: 300."""
    sasl_oauthbearer_assertion_claim_nbf_seconds: int | None
    """Seconds before now from which assertions are valid. Default: 60."""
    sasl_oauthbearer_assertion_claim_jti_include: bool | None
    """Whether each assertion has an id (jti). Default: false."""
    https_ca_location: str | None
    """Authorities that the token endpoint's certificate may come from: a PEM file; left out, the system's."""
    sasl_aws_region: str | None
    """The AWS region for AWS_MSK_IAM; left out, that of the broker's name or of the environment."""
    sasl_aws_profile: str | None
    """The profile in AWS's configuration files for AWS_MSK_IAM; left out, AWS_PROFILE or default."""
    ssl_ca_location: str | None
    """File with the certificates of the authorities to trust (PEM), or a folder of such files. Without any of these
    properties the system's authorities are trusted."""
    ssl_ca_pem: str | None
    """Certificates of the authorities to trust: the PEM text itself."""
    ssl_truststore_location: str | None
    """Trust store: a file with the certificates to trust, PEM or PKCS12."""
    ssl_truststore_password: str | None
    """Password of the trust store, if it is PKCS12."""
    ssl_truststore_certificates: str | None
    """Certificates to trust: the PEM text itself."""
    ssl_truststore_type: Literal["pem", "pkcs12", "jks"] | None
    """Format of the trust store. Not given: detected from the file. JKS is an error that names the command to convert
    the file."""
    ssl_certificate_location: str | None
    """File with this client's certificate and those that link it to its authority (PEM)."""
    ssl_certificate_pem: str | None
    """This client's certificate and those that link it to its authority: the PEM text itself."""
    ssl_key_location: str | None
    """File with the private key of this client's certificate (PEM)."""
    ssl_key_pem: str | None
    """Private key of this client's certificate: the PEM text itself."""
    ssl_key_password: str | None
    """Password of the private key, if it is encrypted. In a PKCS12 key store the key mostly has the store's
    password."""
    ssl_keystore_location: str | None
    """Key store: a file with this client's certificates and their private key, PEM or PKCS12."""
    ssl_keystore_password: str | None
    """Password of the key store, if it is PKCS12."""
    ssl_keystore_certificate_chain: str | None
    """This client's certificate and those that link it to its authority: the PEM text itself."""
    ssl_keystore_key: str | None
    """Private key of this client's certificate: the PEM text itself."""
    ssl_keystore_type: Literal["pem", "pkcs12", "jks"] | None
    """Format of the key store. Not given: detected from the file. JKS is an error that names the command to convert the
    file."""
    ssl_endpoint_identification_algorithm: Literal["https", "none", ""] | None
    """Whether a broker's certificate must be for the host that was dialled: https, or none (an empty text does too).
    Default: https."""
    enable_ssl_certificate_verification: bool | None
    """Whether a broker's certificate must come from a trusted authority. With false anybody can pose as the broker.
    Default: true."""
    ssl_enabled_protocols: str | None
    """Versions of TLS that may be used, separated by commas: TLSv1.2, TLSv1.3. Default: TLSv1.2,TLSv1.3."""
    ssl_protocol: Literal["tls", "tlsv1.3", "tlsv1.2"] | None
    """Newest version of TLS that may be used. TLS stands for all of ssl.enabled.protocols. Default: TLSv1.3."""
    ssl_cipher_suites: str | None
    """Cipher suites that may be used, separated by commas, by their names in the standard or OpenSSL's. Not given: all
    that are safe."""
    address_map: str | None
    """Brokers that are reached at another address than they advertise, behind forwarded ports or a bastion:
    advertised=reached, each host:port, separated by commas (broker-1:9092=localhost:19092,...). Certificates must still
    name the advertised host, or the host named as a third part (broker-1:9092=localhost:19092=kafka.example.org)."""
    proxy_url: str | None
    """Proxy for every connection: socks5h://user:password@host:port or http://... (CONNECT), where the proxy looks up
    the names of brokers, or socks5://..., where this machine does."""
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"] | None
    """What a host name leads to. Every address of it is tried (use_all_dns_ips); or that, and bootstrap servers are
    known by the names that their IP addresses have in the DNS (resolve_canonical_bootstrap_servers_only). Default:
    use_all_dns_ips."""
    bootstrap_resolve_timeout_ms: int | None
    """How long the names of all bootstrap servers may be unknown to the DNS before calls fail at once; 0 lets each call
    wait until its own deadline (KIP-909). Default: 0."""
    connections_max_idle_ms: int | None
    """Idle connections are closed after this; -1 keeps them. Default: 540000."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"] | None
    """What to do when no known broker gives metadata: begin again at the bootstrap servers (rebootstrap), or go on with
    the known brokers (none). Default: rebootstrap."""
    metadata_recovery_rebootstrap_trigger_ms: int | None
    """How long known brokers may give no metadata before the client begins again at the bootstrap servers (KIP-1102).
    Default: 300000."""
    metadata_cluster_check_enable: bool | None
    """Whether connections to known brokers send the expected cluster id and broker id. A broker with other ids then
    rejects the connection, and the client begins again at the bootstrap servers (KIP-1242; brokers since 4.4). Default:
    true."""
    sasl_token: Callable[[], Any] | None
    """A function, or a coroutine function, that returns a token for OAUTHBEARER, or a tuple of a token, the
    seconds for which it is valid and a dict of extensions. For AWS_MSK_IAM: (access_key, secret_key, token).
    """


class RecordProperties(TypedDict, total=False):
    """Properties of the consumer, producer, share-consumer, with underscores where Kafka's names have dots."""

    client_rack: str | None
    """The rack of this client, in the terms of the brokers' broker.rack. A leader with a replica selector then sends a
    consumer to a nearer replica (KIP-392); a producer uses it with partitioner.rack.aware."""


class FetchProperties(TypedDict, total=False):
    """Properties of the consumer, share-consumer, with underscores where Kafka's names have dots."""

    fetch_min_bytes: int | None
    """Bytes that a broker collects before it responds to a fetch. Default: 1."""
    fetch_max_bytes: int | None
    """Most bytes in the response to one fetch. A larger batch is still returned. Default: 16777216."""
    fetch_max_wait_ms: int | None
    """How long a broker waits for fetch.min.bytes. Default: 500."""
    max_poll_records: int | None
    """Most records that one poll returns. A share consumer has a default of 500, and requests that many from brokers:
    other members do not get the records that one member has acquired. Default: 100000."""
    decompress_max_bytes: int | None
    """Most bytes that one batch may decompress to. A larger batch is an error. Default: 268435456."""
    check_crcs: bool | None
    """Whether the checksum of every batch is verified. Default: true."""
    allow_auto_create_topics: bool | None
    """Whether reading a topic that does not exist creates it, if the broker's auto.create.topics.enable allows that.
    With false, such a topic is an error. Default: false."""
    group_id: str | None
    """The consumer group. Its members share the partitions of the topics that they subscribe to, and offsets are
    committed under its name. Of a share consumer it is the share group, which needs a name that no consumer group
    has."""


class AdminProperties(ClientProperties, total=False):
    """Properties of the admin, with underscores where Kafka's names have dots."""


class ConsumerProperties(ClientProperties, RecordProperties, FetchProperties, total=False):
    """Properties of the consumer, with underscores where Kafka's names have dots."""

    max_partition_fetch_bytes: int | None
    """Most bytes of one partition in the response to one fetch. A larger batch is still returned. Default: 4194304."""
    prefetch_max_bytes: int | None
    """Most bytes that are requested from brokers or wait for a poll; at this limit fetching pauses. Default:
    33554432."""
    prefetch_total_max_bytes: int | None
    """Most bytes that are requested or wait for a poll in all consumers of the process. Each has the same part of it
    for its own, at most prefetch.max.bytes. Default: 1073741824."""
    auto_offset_reset: str | None
    """Where to start without a position, or if the records at the position are gone: at the first record (earliest),
    after the last one (latest), at the first record that is not older than a duration (by_duration: and a duration of
    ISO 8601, such as by_duration:PT6H or by_duration:P1DT12H; KIP-1106), or nowhere, with an error (none). Where a log
    was truncated, as after an unclean election, reading goes on where it was, and none is an error (KIP-320). Default:
    latest."""
    isolation_level: Literal["read_uncommitted", "read_committed"] | None
    """Whether records of open and aborted transactions are hidden. Default: read_uncommitted."""
    group_instance_id: str | None
    """The name of this member, which no other member of the group has: it keeps its partitions while it is away for
    less than session.timeout.ms (KIP-345)."""
    group_protocol: Literal["classic", "consumer", "auto"] | None
    """The protocol by which the group assigns partitions: classic, where one of the members assigns; consumer, where
    the group's coordinator does (KIP-848; brokers since Kafka 4.0); or auto, which is consumer where the cluster has
    it, and classic elsewhere. Default: classic."""
    group_remote_assignor: str | None
    """The coordinator's assignor, such as uniform or range, where it is to use another than its first one. Not with
    group.protocol=classic."""
    partition_assignment_strategy: str | Assignor | Sequence[str | Assignor] | None
    """Assignors for the classic protocol, the preferred one first: range, roundrobin, sticky, cooperative-sticky, or
    Java's class names; in a list also assignors of your own, ottla.Assignor. The group uses one that all have. Default:
    range,cooperative-sticky."""
    session_timeout_ms: int | None
    """The group removes a member that sends no heartbeat for this time. With group.protocol=consumer the brokers
    configure it. Default: 45000."""
    heartbeat_interval_ms: int | None
    """Interval of heartbeats to the group's coordinator. With group.protocol=consumer the brokers configure it.
    Default: 3000."""
    max_poll_interval_ms: int | None
    """A consumer that is not polled for this time leaves the group, until it is polled again. The group also waits this
    long for its members in a rebalance. Default: 300000."""
    enable_auto_commit: bool | None
    """Whether polls commit what earlier polls returned. Only with a group. Default: true."""
    auto_commit_interval_ms: int | None
    """How often polls commit. Default: 5000."""
    offsets_storage: Literal["kafka", "zookeeper"] | None
    """Where the offsets of group.id are kept: kafka, with the group's coordinator; or zookeeper, where consumers of
    Kafka 0.8 kept them by default, and which brokers before 4.0 still reach if they have a ZooKeeper. Neither sees what
    is committed in the other. ZooKeeper keeps no metadata and no leader epochs, and knows no members: only for
    partitions that are assigned by hand. Default: kafka."""


class ProducerProperties(ClientProperties, RecordProperties, total=False):
    """Properties of the producer, with underscores where Kafka's names have dots."""

    acks: Literal["all", "-1", "0", "1", -1, 0, 1] | None
    """Replicas that must have a record before it counts as delivered: all that are in sync, the leader alone (1), or
    none (0). Default: all."""
    enable_idempotence: bool | None
    """Whether retries can never write a record twice or out of order. If it is not given, acks of 0 or 1 turn it off.
    Default: true."""
    linger_ms: int | None
    """How long a batch waits for more records. Not given: a batch is sent at once if no request to its broker is in
    flight, else when a response arrives, when the batch is full, or after 5 ms."""
    batch_size: int | None
    """Size at which a batch is closed, before compression. A larger record has a batch of its own. Default: 1000000."""
    buffer_memory: int | None
    """Most bytes of undelivered records; at this limit a send waits for space. Default: 67108864."""
    max_block_ms: int | None
    """How long a send may wait for space, or for the metadata of a topic not used before. Default: 60000."""
    close_timeout_ms: int | None
    """How long close() without a timeout, or leaving a with block, waits for undelivered records. Then they fail, and
    it raises an error. Default: 30000."""
    metadata_max_idle_ms: int | None
    """How long the metadata of a topic is kept and refreshed after the last send to it. Default: 300000."""
    max_request_size: int | None
    """Largest record and largest Produce request, before compression. Brokers have limits of their own. Default:
    1048576."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    """Codec of new batches. Default: none."""
    compression_gzip_level: int | None
    """Level of gzip, if that is the codec. Not given: 6."""
    compression_lz4_level: int | None
    """Level of lz4, if that is the codec: 1 to 17. Kafka's default of 9 is fast; all others search slowly."""
    compression_zstd_level: int | None
    """Level of zstd, if that is the codec. Not given: 3."""
    max_in_flight_requests_per_connection: int | None
    """Produce requests in flight per connection; 5 at most with idempotence. Default: 5."""
    delivery_timeout_ms: int | None
    """Upper bound on the time from a send to its delivery result, retries included. Default: 120000."""
    retries: int | None
    """Most retries of a batch. delivery.timeout.ms is the better bound. Default: 2147483647."""
    transactional_id: str | None
    """Makes the producer transactional: its records are read as a whole or not at all. Of several running producers
    with the same one, the newest fences the others."""
    transaction_timeout_ms: int | None
    """How long a transaction may be open before its coordinator aborts it and fences the producer. At most the brokers'
    transaction.max.timeout.ms. Default: 60000."""
    transaction_two_phase_commit_enable: bool | None
    """Whether transactions can be prepared, and then end only when their owner commits or aborts them: the coordinator
    aborts none for being open too long (KIP-939). The brokers must allow it. Default: false."""
    partitioner: (
        Literal[
            "sticky",
            "round_robin",
            "consistent",
            "consistent_random",
            "murmur2",
            "murmur2_random",
            "fnv1a",
            "fnv1a_random",
        ]
        | Callable[[str, Keys, int], Any]
        | None
    )
    """Where records go that name no partition. sticky: those with a key where Java's murmur2 puts them, the others to
    one partition until it got batch.size bytes, then to another (KIP-794). round_robin: likewise, the others each to
    the next partition. The others are librdkafka's: by CRC-32 (consistent), murmur2 or FNV-1a of the key; without one
    as sticky does (_random), else all to one partition. Empty keys count as none with consistent_random only. Default:
    sticky."""
    partitioner_ignore_keys: bool | None
    """Whether keys do not choose partitions: records are spread as if they had none. Default: false."""
    partitioner_adaptive_partitioning_enable: bool | None
    """Whether records without a key go less often to partitions for which many batches wait (KIP-794). Default:
    true."""
    partitioner_availability_timeout_ms: int | None
    """How long a broker may take no batch although some wait for it, before records without a key avoid its partitions;
    0: however long. Default: 0."""
    partitioner_rack_aware: bool | None
    """Whether records without a key go to partitions whose leader is in client.rack, as long as there are such
    (KIP-1123). Default: false."""


class ShareConsumerProperties(ClientProperties, RecordProperties, FetchProperties, total=False):
    """Properties of the share-consumer, with underscores where Kafka's names have dots."""

    share_acknowledgement_mode: Literal["implicit", "explicit"] | None
    """How records are acknowledged: implicit, where the next poll or commit accepts what the last one returned; or
    explicit, where the application acknowledges each record before it polls again. Default: implicit."""
    share_acquire_mode: Literal["batch_optimized", "record_limit"] | None
    """How many records a broker returns at once: whole batches, so that it may be more than max.poll.records
    (batch_optimized); or never more than that, from one broker after the other (record_limit, KIP-1206; brokers since
    Kafka 4.2). Default: batch_optimized."""
