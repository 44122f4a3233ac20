import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * What an MQClientInstance puts on the wire: when each group last pulled or popped each queue, and heartbeats. A
 * consumer of LitePull before 5.1.1 writes its pulls down nowhere else. Clients that share an instance share the hook of
 * the first of them.
 */
class RemotingRequests implements RPCHook {
    private static final int PULL_MESSAGE = 11;
    private static final int LITE_PULL_MESSAGE = 361;
    private static final int POP_MESSAGE = 200050;
    private static final int HEART_BEAT = 34;
    private static final int GET_CONSUMER_RUNNING_INFO = 307;

    /** Pull requests, by `key`. */
    final QueueCounts pulls = new QueueCounts();
    /** By address, when the last heartbeat was sent. */
    final Map<String, Long> heartbeats = new ConcurrentHashMap<>();
    private final boolean isMute;

    /** A mute client refuses every question for its running info. */
    RemotingRequests(boolean isMute) {
        this.isMute = isMute;
    }

    @Override
    public void doBeforeRequest(String address, RemotingCommand request) {
        switch (request.getCode()) {
            case PULL_MESSAGE:
            case LITE_PULL_MESSAGE:
            case POP_MESSAGE:
                request.makeCustomHeaderToNet();
                Map<String, String> fields = request.getExtFields();
                pulls.add(key(fields.get("consumerGroup"), fields.get("topic"), address, fields.get("queueId")), 1);
                break;
            case HEART_BEAT:
                heartbeats.put(address, System.currentTimeMillis());
                break;
            case GET_CONSUMER_RUNNING_INFO:
                if (isMute) {
                    throw new IllegalStateException("a mute client");
                }
                break;
            default:
        }
    }

    static String key(String group, String topic, String address, String queueId) {
        return String.join("@", group, topic, address, queueId);
    }

    @Override
    public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
    }
}
