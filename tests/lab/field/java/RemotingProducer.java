import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Field;
import java.util.Map;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.impl.producer.DefaultMQProducerImpl;
import org.apache.rocketmq.client.latency.MQFaultStrategy;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;

/** A DefaultMQProducer that sends at a pace, and its FaultItems. */
class RemotingProducer extends RemotingMember {
    private static final String CLUSTER = "DefaultCluster";

    private final DefaultMQProducer producer;
    private final BalancewatchHook hook;
    private Sending sending;

    RemotingProducer(JSONObject spec) throws Exception {
        super(spec);
        producer = new DefaultMQProducer(spec.getString("group"), ownRequests);
        producer.setSendLatencyFaultEnable(spec.getBooleanValue("fault_avoidance"));
        configure(producer);
        hook = spec.getBooleanValue("hooked") ? new BalancewatchHook(CLUSTER, spec.getString("bootstrap_servers")) : null;
        if (hook != null) {
            hook.addTo(producer);
        }
    }

    @Override
    public void start() throws Exception {
        producer.start();
        sending = new Sending(spec, this::send);
    }

    private String send(String topic, String tag, String key, byte[] body) throws Exception {
        Message message = new Message(topic, tag, key, body);
        SendResult result = key.isEmpty()
            ? producer.send(message) : producer.send(message, new SelectMessageQueueByHash(), key);
        if (result.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(result.getSendStatus().name());
        }
        var mq = result.getMessageQueue();
        return QueueCounts.key(mq.getTopic(), mq.getBrokerName(), mq.getQueueId());
    }

    @Override
    public void stop() {
        sending.stop();
        producer.shutdown();
        if (hook != null) {
            hook.close();
        }
    }

    @Override
    protected MQClientInstance instance() {
        try {
            return field(DefaultMQProducerImpl.class, "mQClientFactory", producer.getDefaultMQProducerImpl());
        } catch (Exception impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    @Override
    public void command(String verb, String arguments) {
        if (!sending.command(verb, arguments)) {
            throw new IllegalArgumentException("no verb of a producer: " + verb);
        }
    }

    @Override
    public void describe(JSONObject line, MachineClock clock) throws Exception {
        super.describe(line, clock);
        line.put("faults", faults(clock));
        sending.describe(line);
    }

    private JSONArray faults(MachineClock clock) throws Exception {
        MQFaultStrategy strategy =
            field(DefaultMQProducerImpl.class, "mqFaultStrategy", producer.getDefaultMQProducerImpl());
        Object tolerance = field(MQFaultStrategy.class, "latencyFaultTolerance", strategy);
        Map<String, Object> items = field(tolerance.getClass(), "faultItemTable", tolerance);
        JSONArray rows = new JSONArray();
        for (Object item : items.values()) {
            JSONObject row = new JSONObject(true);
            row.put("broker_name", field(item.getClass(), "name", item));
            row.put("latency_ms", field(item.getClass(), "currentLatency", item));
            row.put("available_at", clock.of(RemotingMember.<Long>field(item.getClass(), "startTimestamp", item)));
            for (Field field : item.getClass().getDeclaredFields()) {
                if (field.getName().equals("reachableFlag")) {
                    row.put("reachable", field(item.getClass(), "reachableFlag", item));
                }
            }
            rows.add(row);
        }
        return rows;
    }
}
