import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A producer's pace: so many messages a second over its topics and keys in turn, a tag drawn for each: tags in turn
 * would go to the same queues again and again, and a queue of tags that nobody subscribes starves nobody. A send that
 * takes its time does not hold up the next: up to THREADS go on side by side, and a turn that finds all of them busy is
 * left out. Missed turns are not made up for.
 */
class Sending {
    private static final int THREADS = 8;

    /** Sends one message, by a key where `key` is not empty; answers topic@broker@id of the queue that took it. */
    interface Sender {
        String send(String topic, String tag, String key, byte[] body) throws Exception;
    }

    private final Sender sender;
    private final String name;
    private final String[] topics;
    private final String[] tags;
    private final int keys;
    private final QueueCounts sent = new QueueCounts();
    private final AtomicLong turns = new AtomicLong();
    private final AtomicLong done = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final Gate gate = new Gate();
    private final Random draws;
    private final Semaphore free = new Semaphore(THREADS);
    /** Hands each send to the thread that was free last, so that sends which do not overlap visit queues in turn. */
    private final ExecutorService threads = Executors.newCachedThreadPool(Sending::daemon);
    private final ScheduledExecutorService timer = Executors.newSingleThreadScheduledExecutor(Sending::daemon);
    private ScheduledFuture<?> pace;
    private volatile String lastFailure = "";

    Sending(JSONObject spec, Sender sender) {
        this.sender = sender;
        name = spec.getString("name");
        topics = spec.getJSONArray("topics").toArray(new String[0]);
        tags = spec.getString("expression").equals("*") ? new String[] {"A"}
            : spec.getString("expression").split("\\s*\\|\\|\\s*");
        keys = spec.getIntValue("order_by");
        draws = new Random(name.hashCode());
        setRate(spec.getDoubleValue("rate_per_s"));
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work, "sending");
        thread.setDaemon(true);
        return thread;
    }

    private synchronized void setRate(double perSecond) {
        if (pace != null) {
            pace.cancel(false);
        }
        if (perSecond > 0) {
            long micros = (long) (1_000_000 / perSecond);
            pace = timer.scheduleWithFixedDelay(this::turn, micros, micros, TimeUnit.MICROSECONDS);
        }
    }

    private void turn() {
        if (free.tryAcquire()) {
            threads.execute(this::send);
        }
    }

    private void send() {
        try {
            gate.pass();
            long turn = turns.getAndIncrement();
            String topic = topics[(int) (turn % topics.length)];
            String tag = tags[draws.nextInt(tags.length)];
            String key = keys > 0 ? "key" + turn / topics.length % keys : "";
            byte[] body = (name + "-" + turn).getBytes(StandardCharsets.UTF_8);
            sent.add(sender.send(topic, tag, key, body), 1);
            done.incrementAndGet();
        } catch (Exception refused) {
            failed.incrementAndGet();
            lastFailure = refused.toString();
        } finally {
            free.release();
        }
    }

    /** Whether the verb is a producer's. */
    boolean command(String verb, String arguments) {
        switch (verb) {
            case "hang":
            case "unhang":
                gate.set(verb.equals("unhang"));
                return true;
            case "rate_per_s":
                setRate(Double.parseDouble(arguments));
                return true;
            default:
                return false;
        }
    }

    void describe(JSONObject line) {
        JSONArray rows = new JSONArray();
        for (String queue : sent.queues()) {
            String[] parts = queue.split("@");
            JSONObject row = new JSONObject(true);
            row.put("topic", parts[0]);
            row.put("broker_name", parts[1]);
            row.put("queue_id", Integer.parseInt(parts[2]));
            row.put("sent", sent.count(queue));
            row.put("last_sent", sent.last(queue));
            rows.add(row);
        }
        line.put("queues", rows);
        line.put("sent", done.get());
        line.put("send_failed", failed.get());
        line.put("last_failure", lastFailure);
    }

    void stop() {
        timer.shutdownNow();
        threads.shutdownNow();
        gate.set(true);
    }
}
