// What the assignors of Kafka's clients assign, for groups made up at random: members that come and go, subscribe to other topics,
// lag a generation behind, claim what is not theirs, tell nothing, stand in racks, are static; topics that grow.
//
//     AssignorOracle SEED COUNT OUT.jsonl.gz      # COUNT groups for each assignor
//     AssignorOracle time                         # how long each takes for large groups

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.*;

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.stream.Collectors;
import java.util.zip.GZIPOutputStream;

public class AssignorOracle {
    static final ObjectMapper JSON = new ObjectMapper();
    static final JsonNodeFactory F = JsonNodeFactory.instance;
    static final String[] NAMES = {"range", "roundrobin", "sticky", "cooperative-sticky"};

    static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    /** A member over several rounds. */
    static final class Person {
        String id, rack;
        Optional<String> instance = Optional.empty();
        List<String> topics;
        List<TopicPartition> owned;  // null: it was never assigned anything
        int generation = -1;
    }

    /** A group under construction. */
    static final class World {
        final SplittableRandom r;
        final String assignor;
        final Map<String, List<Node[]>> topics = new LinkedHashMap<>();
        final List<Person> people = new ArrayList<>();
        final List<Node> nodes = new ArrayList<>();
        final boolean racks, alike;
        final int claims;  // percent of members that claim something made up
        int names;

        World(SplittableRandom r, String assignor) {
            this.r = r;
            this.assignor = assignor;
            racks = r.nextInt(3) == 0;
            alike = r.nextBoolean();
            claims = r.nextInt(4) == 0 ? 30 : 0;
            int brokers = 1 + r.nextInt(6), different = 1 + r.nextInt(4);
            for (int i = 0; i < brokers; i++)
                nodes.add(new Node(i, "b" + i, 9092, racks && r.nextInt(8) > 0 ? "rack-" + r.nextInt(different) : null));
            for (int i = 1 + r.nextInt(8); i > 0; i--) {
                List<Node[]> partitions = new ArrayList<>();
                topics.put(word("abcdefghijklmnopqrstuvwxyz.-_0123456789", 1 + r.nextInt(12)), partitions);
                // Equally many now and then: such topics are assigned alike.
                grow(partitions, r.nextInt(3) == 0 ? 6 : r.nextInt(21));
            }
            for (int i = 1 + r.nextInt(12); i > 0; i--) join();
        }

        String word(String letters, int length) {
            StringBuilder word = new StringBuilder();
            for (int i = 0; i < length; i++) word.append(letters.charAt(r.nextInt(letters.length())));
            return word.toString() + (letters.length() > 20 ? names++ : "");
        }

        void grow(List<Node[]> partitions, int to) {
            while (partitions.size() < to) {
                List<Node> replicas = new ArrayList<>();
                for (int i = 1 + r.nextInt(3); i > 0; i--) {
                    Node node = nodes.get(r.nextInt(nodes.size()));
                    if (!replicas.contains(node)) replicas.add(node);
                }
                partitions.add(replicas.toArray(new Node[0]));
            }
        }

        void join() {
            Person person = new Person();
            String client = r.nextInt(15) == 0 ? "\u00e9\uff21\ud83d\ude00".substring(r.nextInt(2)) : "consumer-" + (1 + r.nextInt(3));
            person.id = client + "-" + word("0123456789abcdef", 12);
            if (r.nextInt(4) == 0) person.instance = Optional.of("i" + r.nextInt(1000) + "-" + names++);
            if (racks && r.nextInt(6) > 0) person.rack = r.nextInt(20) == 0 ? "far" : "rack-" + r.nextInt(4);
            if (racks && r.nextInt(30) == 0) person.rack = "";
            subscribe(person);
            people.add(person);
        }

        void subscribe(Person person) {
            List<String> all = new ArrayList<>(topics.keySet());
            if (alike) {
                person.topics = all;
            } else {
                person.topics = all.stream().filter(t -> r.nextInt(5) > 1).collect(Collectors.toCollection(ArrayList::new));
                if (person.topics.isEmpty() && r.nextInt(4) > 0) person.topics.add(all.get(r.nextInt(all.size())));
                if (r.nextInt(8) == 0) person.topics.add("absent" + r.nextInt(3));
                shuffle(person.topics);
            }
        }

        void shuffle(List<?> list) { Collections.shuffle(list, new Random(r.nextLong())); }

        /** What may happen between two rebalances. */
        void live() {
            for (Iterator<Person> it = people.iterator(); it.hasNext();) { it.next(); if (r.nextInt(5) == 0 && people.size() > 1) it.remove(); }
            for (int i = r.nextInt(3); i > 0 && people.size() < 12; i--) join();
            for (Person person : people) if (r.nextInt(8) == 0) subscribe(person);
            for (List<Node[]> partitions : topics.values()) if (r.nextInt(6) == 0) grow(partitions, partitions.size() + r.nextInt(5));
            shuffle(people);
        }

        Cluster cluster() {
            List<PartitionInfo> infos = new ArrayList<>();
            topics.forEach((topic, partitions) -> {
                for (int i = 0; i < partitions.size(); i++) {
                    Node[] replicas = partitions.get(i);
                    infos.add(new PartitionInfo(topic, i, replicas[0], replicas, replicas));
                }
            });
            shuffle(infos);
            return new Cluster("c", nodes, infos, Set.of(), Set.of());
        }

        /** What a member tells, as bytes: of an old client less than of a new one. */
        ByteBuffer told(Person person) {
            List<TopicPartition> owned = person.owned == null ? new ArrayList<>() : new ArrayList<>(person.owned);
            int generation = person.generation;
            if (r.nextInt(100) < claims) {
                List<String> all = new ArrayList<>(topics.keySet());
                for (int i = r.nextInt(6); i > 0; i--) {
                    String topic = all.get(r.nextInt(all.size()));
                    int count = topics.get(topic).size();
                    TopicPartition claim = count == 0 ? new TopicPartition("gone", 0) : new TopicPartition(topic, r.nextInt(count));
                    if (!owned.contains(claim)) owned.add(claim);
                }
                if (r.nextInt(3) == 0) generation += r.nextInt(3) - 1;
            }
            ByteBuffer data = userData(assignor, person.owned == null && owned.isEmpty() ? null : owned, generation);
            if (assignor.contains("sticky")) {
                int luck = r.nextInt(40);
                if (luck < 4) data = null;
                else if (luck < 8 && data != null && data.remaining() >= 4) data.limit(data.limit() - 4);  // without a generation
                else if (luck == 8 && data != null && data.remaining() > 9) data.limit(9);
                else if (luck == 9) data = ByteBuffer.wrap(new byte[0]);
            }
            boolean eager = assignor.equals("sticky") && r.nextInt(5) > 0;
            Subscription subscription = new Subscription(person.topics, data, eager ? List.of() : owned,
                r.nextInt(20) == 0 ? generation - 1 : generation, Optional.ofNullable(person.rack));
            short version = (short) (r.nextInt(5) > 0 ? 3 : r.nextInt(4));
            return ConsumerProtocol.serializeSubscription(subscription, version);
        }

        ObjectNode round(boolean last) {
            List<Person> present = new ArrayList<>(people);
            Map<String, Subscription> group = new HashMap<>();
            Map<String, ByteBuffer> bytes = new HashMap<>();
            for (Person person : present) {
                ByteBuffer told = told(person);
                bytes.put(person.id, told);
                Subscription read = ConsumerProtocol.deserializeSubscription(told.duplicate());
                read.setGroupInstanceId(person.instance);
                group.put(person.id, read);
            }
            Map<String, Assignment> assigned = null;
            String error = null;
            try {
                assigned = assignor(assignor).assign(cluster(), new GroupSubscription(group)).groupAssignment();
            } catch (RuntimeException e) {
                error = e.getClass().getSimpleName();
            }
            if (!last) {
                for (Person person : present) {
                    if (assigned == null || r.nextInt(10) == 0) continue;  // it missed this one
                    person.owned = new ArrayList<>(assigned.get(person.id).partitions());
                    person.generation = 1 + Math.max(person.generation, generationOf(present));
                }
                return null;
            }
            return line(present, bytes, assigned, error);
        }

        int generationOf(List<Person> present) { return present.stream().mapToInt(p -> p.generation).max().orElse(-1); }

        ObjectNode line(List<Person> present, Map<String, ByteBuffer> bytes, Map<String, Assignment> assigned, String error) {
            ObjectNode line = F.objectNode();
            line.put("kind", assignor);
            ArrayNode all = line.putArray("topics");
            List<String> names = new ArrayList<>(topics.keySet());
            topics.forEach((topic, partitions) -> {
                ArrayNode row = all.addArray().add(topic);
                if (!racks) { row.add(partitions.size()); return; }
                ArrayNode replicas = row.addArray();
                for (Node[] nodes : partitions) {
                    ArrayNode one = replicas.addArray();
                    for (Node node : nodes) if (node.rack() != null) one.add(node.rack());
                }
            });
            ArrayNode members = line.putArray("members");
            for (Person person : present) {
                ArrayNode row = members.addArray().add(person.id).add(person.instance.orElse(null)).add(hex(bytes.get(person.id)));
                if (assigned == null) continue;
                ArrayNode got = row.addArray();
                for (TopicPartition tp : assigned.get(person.id).partitions()) got.add(names.indexOf(tp.topic())).add(tp.partition());
            }
            if (error != null) { line.put("throws", error); return line; }
            Person one = present.get(r.nextInt(present.size()));
            line.putArray("wire").add(one.id).add(hex(ConsumerProtocol.serializeAssignment(assigned.get(one.id))));
            line.put("user", hex(userData(assignor, assigned.get(one.id).partitions(), 7)));
            return line;
        }
    }

    /** What a member of a group adds to its subscription. */
    static ByteBuffer userData(String name, List<TopicPartition> owned, int generation) {
        ConsumerPartitionAssignor member = assignor(name);
        if (owned != null)
            member.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", generation, "m", Optional.empty()));
        return member.subscriptionUserData(Set.of());
    }

    static String hex(ByteBuffer bytes) {
        if (bytes == null) return null;
        StringBuilder text = new StringBuilder();
        for (int i = bytes.position(); i < bytes.limit(); i++) text.append(String.format("%02x", bytes.get(i)));
        return text.toString();
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("time")) { time(); return; }
        SplittableRandom seeds = new SplittableRandom(Long.parseLong(args[0]));
        int count = Integer.parseInt(args[1]);
        try (Writer out = new OutputStreamWriter(new GZIPOutputStream(new FileOutputStream(args[2])), StandardCharsets.UTF_8)) {
            for (int i = 0; i < count; i++)
                for (String name : NAMES) {
                    World world = new World(seeds.split(), name);
                    for (int rounds = world.r.nextInt(4); rounds > 0; rounds--) { world.round(false); world.live(); }
                    out.write(JSON.writeValueAsString(world.round(true)) + "\n");
                }
        }
    }

    /** 10,000 partitions of 20 topics, 200 members: the median of some runs in milliseconds, after others to warm up. */
    static void time() {
        for (String name : NAMES)
            for (boolean alike : new boolean[] {true, false})
                for (boolean owning : new boolean[] {false, true}) {
                    System.out.printf("%s %s %s %.2f%n", name, alike ? "alike" : "differing", owning ? "owning" : "fresh", timed(name, alike, owning));
                }
    }

    static double timed(String name, boolean alike, boolean owning) {
        List<PartitionInfo> infos = new ArrayList<>();
        Node node = new Node(0, "b", 9092);
        Node[] one = {node};
        for (int t = 0; t < 20; t++) for (int p = 0; p < 500; p++) infos.add(new PartitionInfo("topic-" + t, p, node, one, one));
        Cluster cluster = new Cluster("c", List.of(node), infos, Set.of(), Set.of());
        Map<String, List<TopicPartition>> owned = new HashMap<>();
        if (owning) {
            Map<String, Subscription> before = group(name, alike, 190, Map.of());
            assignor(name).assign(cluster, new GroupSubscription(before)).groupAssignment().forEach((id, a) -> owned.put(id, a.partitions()));
        }
        List<Double> took = new ArrayList<>();
        long end = System.nanoTime() + 6_000_000_000L;
        for (int run = 0; run < 40 && (run < 3 || System.nanoTime() < end); run++) {
            Map<String, Subscription> members = group(name, alike, 200, owned);
            long from = System.nanoTime();
            assignor(name).assign(cluster, new GroupSubscription(members));
            took.add((System.nanoTime() - from) / 1e6);
        }
        List<Double> warm = took.subList(took.size() / 2, took.size()).stream().sorted().collect(Collectors.toList());
        return warm.get(warm.size() / 2);
    }

    /** Members that subscribed to all of 20 topics, or each to all but one. */
    static Map<String, Subscription> group(String name, boolean alike, int count, Map<String, List<TopicPartition>> owned) {
        Map<String, Subscription> group = new HashMap<>();
        for (int m = 0; m < count; m++) {
            String id = String.format("consumer-%03d", m);
            List<String> topics = new ArrayList<>();
            for (int t = 0; t < 20; t++) if (alike || t != m % 20) topics.add("topic-" + t);
            List<TopicPartition> has = owned.get(id);
            ByteBuffer data = userData(name, has, 3);
            group.put(id, new Subscription(topics, data, has == null ? List.of() : has, has == null ? -1 : 3, Optional.empty()));
        }
        return group;
    }
}
