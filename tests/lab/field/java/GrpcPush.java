import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.java.message.MessageViewImpl;
import org.apache.rocketmq.client.java.route.MessageQueueImpl;

/** A PushConsumer of the gRPC client. Its queues are as the proxy assigns them: -1 is every queue of a broker. */
class GrpcPush implements Member {
    private static final int THREADS = 4;

    private final JSONObject spec;
    private final Listening listening;
    private PushConsumer consumer;

    GrpcPush(JSONObject spec) {
        this.spec = spec;
        listening = new Listening(spec);
    }

    @Override
    public void start() throws Exception {
        Map<String, FilterExpression> expressions = new HashMap<>();
        for (Object topic : spec.getJSONArray("topics")) {
            expressions.put(topic.toString(), filter(spec.getString("expression")));
        }
        consumer = ClientServiceProvider.loadService().newPushConsumerBuilder()
            .setClientConfiguration(GrpcSettings.of(spec))
            .setConsumerGroup(spec.getString("group"))
            .setSubscriptionExpressions(expressions)
            .setConsumptionThreadCount(THREADS)
            .setMessageListener(this::consume)
            .build();
    }

    private static FilterExpression filter(String expression) {
        return new FilterExpression(expression, FilterExpressionType.TAG);
    }

    private ConsumeResult consume(MessageView message) {
        MessageQueueImpl mq = ((MessageViewImpl) message).getMessageQueue();
        listening.consume(QueueCounts.key(message.getTopic(), mq.getBroker().getName(), mq.getQueueId()), 1);
        return ConsumeResult.SUCCESS;
    }

    @Override
    public void stop() throws Exception {
        listening.stop();
        consumer.close();
    }

    @Override
    public String clientId() {
        return GrpcSettings.clientId(consumer);
    }

    @Override
    public void command(String verb, String arguments) throws Exception {
        String[] parts = arguments.split(" ", 2);
        switch (verb) {
            case "subscribe":
                consumer.subscribe(parts[0], filter(parts.length > 1 ? parts[1] : "*"));
                break;
            case "unsubscribe":
                consumer.unsubscribe(parts[0]);
                break;
            default:
                if (!listening.command(verb, arguments)) {
                    throw new IllegalArgumentException("no verb of a gRPC push consumer: " + verb);
                }
        }
    }

    @Override
    public void describe(JSONObject line, MachineClock clock) throws Exception {
        Field table = consumer.getClass().getDeclaredField("processQueueTable");
        table.setAccessible(true);
        TreeMap<String, JSONObject> rows = new TreeMap<>();
        for (Map.Entry<?, ?> held : ((Map<?, ?>) table.get(consumer)).entrySet()) {
            MessageQueueImpl mq = (MessageQueueImpl) held.getKey();
            JSONObject row = new JSONObject(true);
            row.put("topic", mq.getTopic());
            row.put("broker_name", mq.getBroker().getName());
            row.put("queue_id", mq.getQueueId());
            String queue = QueueCounts.key(mq.getTopic(), mq.getBroker().getName(), mq.getQueueId());
            row.put("last_consume", listening.consumed.last(queue));
            row.put("consumed", listening.consumed.count(queue));
            rows.put(queue, row);
        }
        line.put("queues", new JSONArray(new ArrayList<>(rows.values())));
        JSONObject subscriptions = new JSONObject(new TreeMap<>());
        consumer.getSubscriptionExpressions().forEach(
            (topic, filter) -> subscriptions.put(topic, filter.getExpression()));
        line.put("subscriptions", subscriptions);
    }
}
