import com.alibaba.fastjson.JSONObject;
import java.util.Map;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.consumer.ProcessQueue;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * What consumers of the remoting protocol write down of a queue they hold. `last_pull` is when a pull request of it was
 * last sent, to whichever address the client knows for its broker; `pulled` is what was consumed and what is cached.
 * From 4.9 on every ProcessQueue says that it is locked, so that is written of orderly consumers alone.
 */
abstract class RemotingConsumer extends RemotingMember {
    protected final Listening listening;

    RemotingConsumer(JSONObject spec) {
        super(spec);
        listening = new Listening(spec);
    }

    protected abstract OffsetStore offsetStore();

    protected static String key(MessageQueue mq) {
        return QueueCounts.key(mq.getTopic(), mq.getBrokerName(), mq.getQueueId());
    }

    protected JSONObject row(MessageQueue mq, Map<String, String> names)
        throws Exception {
        JSONObject row = new JSONObject(true);
        row.put("topic", mq.getTopic());
        row.put("broker_name", mq.getBrokerName());
        row.put("queue_id", mq.getQueueId());
        QueueCounts pulls = requests().pulls;
        long requests = 0;
        long last = 0;
        for (Map.Entry<String, String> broker : names.entrySet()) {
            if (broker.getValue().equals(mq.getBrokerName())) {
                String queue = RemotingRequests.key(
                    spec.getString("group"), mq.getTopic(), broker.getKey(), String.valueOf(mq.getQueueId()));
                requests += pulls.count(queue);
                last = Math.max(last, pulls.last(queue));
            }
        }
        row.put("last_pull", last);
        row.put("pull_requests", requests);
        row.put("last_consume", listening.consumed.last(key(mq)));
        row.put("last_lock", 0);
        row.put("locked", false);
        row.put("dropped", false);
        row.put("cached", 0);
        row.put("pulled", listening.consumed.count(key(mq)));
        row.put("consumed", listening.consumed.count(key(mq)));
        row.put("committed", -1);
        return row;
    }

    protected JSONObject row(MessageQueue mq, ProcessQueue queue, Map<String, String> names, MachineClock clock)
        throws Exception {
        JSONObject row = row(mq, names);
        if (spec.getString("kind").equals("push_orderly")) {
            row.put("last_lock", clock.of(queue.getLastLockTimestamp()));
            row.put("locked", queue.isLocked() && !queue.isLockExpired());
        }
        row.put("dropped", queue.isDropped());
        row.put("cached", queue.getMsgCount().get());
        row.put("pulled", row.getLongValue("consumed") + queue.getMsgCount().get());
        row.put("committed", offsetStore().readOffset(mq, ReadOffsetType.READ_FROM_MEMORY));
        return row;
    }
}
