import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * An AllocateMessageQueueStrategy by the name that its getName() says.
 *
 * Its own options are config_queues ("broker-a:0", ... of the first topic), consumer_idcs, virtual_nodes, and rooms: a
 * JSON object from broker name or ClientId to its room.
 */
class RemotingStrategies {
    static final Set<String> OPTIONS =
        new HashSet<>(Arrays.asList("config_queues", "consumer_idcs", "virtual_nodes", "rooms"));

    private static final String NEARBY = "MACHINE_ROOM_NEARBY-";

    private RemotingStrategies() {
    }

    static AllocateMessageQueueStrategy of(JSONObject spec) {
        return of(spec.getString("strategy"), spec, spec.getJSONObject("options"));
    }

    private static AllocateMessageQueueStrategy of(String name, JSONObject spec, JSONObject options) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return options.containsKey("virtual_nodes")
                    ? new AllocateMessageQueueConsistentHash(options.getIntValue("virtual_nodes"))
                    : new AllocateMessageQueueConsistentHash();
            case "CONFIG":
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                config.setMessageQueueList(queues(spec.getJSONArray("topics"), options.getJSONArray("config_queues")));
                return config;
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom machineRoom = new AllocateMessageQueueByMachineRoom();
                machineRoom.setConsumeridcs(new HashSet<>(
                    options.getJSONArray("consumer_idcs").toJavaList(String.class)));
                return machineRoom;
            default:
                if (!name.startsWith(NEARBY)) {
                    throw new IllegalArgumentException("no strategy: " + name);
                }
                return new AllocateMachineRoomNearby(
                    of(name.substring(NEARBY.length()), spec, options), new Rooms(options.getJSONObject("rooms")));
        }
    }

    private static List<MessageQueue> queues(JSONArray topics, JSONArray names) {
        List<MessageQueue> queues = new ArrayList<>();
        for (Object name : names) {
            String[] parts = name.toString().split(":");
            queues.add(new MessageQueue(topics.getString(0), parts[0], Integer.parseInt(parts[1])));
        }
        return queues;
    }

    private static class Rooms implements AllocateMachineRoomNearby.MachineRoomResolver {
        private final JSONObject rooms;

        Rooms(JSONObject rooms) {
            this.rooms = rooms;
        }

        @Override
        public String brokerDeployIn(MessageQueue messageQueue) {
            return rooms.getString(messageQueue.getBrokerName());
        }

        @Override
        public String consumerDeployIn(String clientID) {
            return rooms.getString(clientID);
        }
    }
}
