import com.alibaba.fastjson.JSONObject;

/** What a listener does with messages: it waits while it hangs, takes its time for each, and counts them. */
class Listening {
    final QueueCounts consumed = new QueueCounts();
    private final Gate gate = new Gate();
    private volatile long consumeMillis;

    Listening(JSONObject spec) {
        consumeMillis = spec.getLongValue("consume_ms");
    }

    void consume(String queue, int messages) {
        for (int i = 0; i < messages; i++) {
            gate.pass();
            pause();
            consumed.add(queue, 1);
        }
    }

    /** Whoever hangs is let go. */
    void stop() {
        gate.set(true);
    }

    private void pause() {
        if (consumeMillis > 0) {
            try {
                Thread.sleep(consumeMillis);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Whether the verb is a listener's. */
    boolean command(String verb, String arguments) {
        switch (verb) {
            case "hang":
            case "unhang":
                gate.set(verb.equals("unhang"));
                return true;
            case "consume_ms":
                consumeMillis = Long.parseLong(arguments);
                return true;
            default:
                return false;
        }
    }
}
