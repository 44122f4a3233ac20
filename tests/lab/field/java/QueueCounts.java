import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** By queue, how many messages and when the last; queues are written topic@broker@id. */
class QueueCounts {
    private final Map<String, AtomicLong> counts = new ConcurrentHashMap<>();
    private final Map<String, Long> last = new ConcurrentHashMap<>();

    static String key(String topic, String brokerName, int queueId) {
        return topic + "@" + brokerName + "@" + queueId;
    }

    void add(String queue, long messages) {
        last.put(queue, System.currentTimeMillis());
        counts.computeIfAbsent(queue, key -> new AtomicLong()).addAndGet(messages);
    }

    long count(String queue) {
        AtomicLong count = counts.get(queue);
        return count == null ? 0 : count.get();
    }

    /** 0 where there was none. */
    long last(String queue) {
        return last.getOrDefault(queue, 0L);
    }

    Iterable<String> queues() {
        return counts.keySet();
    }
}
