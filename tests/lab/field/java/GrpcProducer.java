import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.java.impl.producer.SendReceiptImpl;
import org.apache.rocketmq.client.java.route.MessageQueueImpl;

/** A Producer of the gRPC client that sends at a pace. */
class GrpcProducer implements Member {
    private final JSONObject spec;
    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private Producer producer;
    private Sending sending;

    GrpcProducer(JSONObject spec) {
        this.spec = spec;
    }

    @Override
    public void start() throws Exception {
        producer = provider.newProducerBuilder()
            .setClientConfiguration(GrpcSettings.of(spec))
            .setTopics(spec.getJSONArray("topics").toArray(new String[0]))
            .build();
        sending = new Sending(spec, this::send);
    }

    private String send(String topic, String tag, String key, byte[] body) throws Exception {
        MessageBuilder message = provider.newMessageBuilder().setTopic(topic).setTag(tag).setBody(body);
        if (!key.isEmpty()) {
            message.setKeys(key).setMessageGroup(key);
        }
        MessageQueueImpl mq = ((SendReceiptImpl) producer.send(message.build())).getMessageQueue();
        return QueueCounts.key(topic, mq.getBroker().getName(), mq.getQueueId());
    }

    @Override
    public void stop() throws Exception {
        sending.stop();
        producer.close();
    }

    @Override
    public String clientId() {
        return GrpcSettings.clientId(producer);
    }

    @Override
    public void command(String verb, String arguments) {
        if (!sending.command(verb, arguments)) {
            throw new IllegalArgumentException("no verb of a gRPC producer: " + verb);
        }
    }

    @Override
    public void describe(JSONObject line, MachineClock clock) {
        sending.describe(line);
    }
}
