import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * AllocateMessageQueueStrategy.allocate as the release on the class path answers it.
 *
 * A question is a JSON object: strategy, current_cid, mq_all ([[topic, broker_name, queue_id], ...]), cid_all, and the
 * options consumer_idcs, virtual_nodes, config_queues (positions in mq_all), mq_rooms and cid_rooms (the room of each
 * entry of mq_all and cid_all). The answer is the share's positions in mq_all, or "!" and the exception's name.
 */
public class Allocate {
    static String answer(JSONObject question) {
        List<MessageQueue> mqAll = messageQueues(question.getJSONArray("mq_all"));
        List<String> cidAll = strings(question.getJSONArray("cid_all"));
        Map<MessageQueue, Integer> positions = new IdentityHashMap<>();
        for (int i = 0; mqAll != null && i < mqAll.size(); i++) {
            positions.put(mqAll.get(i), i);
        }
        List<MessageQueue> share;
        try {
            share = strategy(question.getString("strategy"), question, mqAll, cidAll)
                .allocate("group", question.getString("current_cid"), mqAll, cidAll);
        } catch (RuntimeException refused) {
            return "!" + refused.getClass().getSimpleName();
        }
        if (share == null) {
            return "null";
        }
        StringJoiner answer = new StringJoiner(",");
        for (MessageQueue mq : share) {
            answer.add(String.valueOf(positions.get(mq)));
        }
        return answer.toString();
    }

    private static AllocateMessageQueueStrategy strategy(
        String name, JSONObject question, List<MessageQueue> mqAll, List<String> cidAll) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return question.containsKey("virtual_nodes")
                    ? new AllocateMessageQueueConsistentHash(question.getIntValue("virtual_nodes"))
                    : new AllocateMessageQueueConsistentHash();
            case "CONFIG":
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                if (question.get("config_queues") != null) {
                    List<MessageQueue> queues = new ArrayList<>();
                    for (Object position : question.getJSONArray("config_queues")) {
                        queues.add(mqAll.get((Integer) position));
                    }
                    config.setMessageQueueList(queues);
                }
                return config;
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom machineRoom = new AllocateMessageQueueByMachineRoom();
                if (question.get("consumer_idcs") != null) {
                    machineRoom.setConsumeridcs(new HashSet<>(strings(question.getJSONArray("consumer_idcs"))));
                }
                return machineRoom;
            default:
                String inner = name.substring("MACHINE_ROOM_NEARBY-".length());
                AllocateMessageQueueStrategy nearby = new AllocateMachineRoomNearby(
                    strategy(inner, question, mqAll, cidAll),
                    question.containsKey("mq_rooms") ? new Rooms(question, mqAll, cidAll) : null);
                if (!nearby.getName().equals(name)) {
                    throw new AssertionError(nearby.getName());
                }
                return nearby;
        }
    }

    private static class Rooms implements AllocateMachineRoomNearby.MachineRoomResolver {
        private final Map<MessageQueue, String> ofQueue = new IdentityHashMap<>();
        private final Map<String, String> ofClient = new HashMap<>();

        Rooms(JSONObject question, List<MessageQueue> mqAll, List<String> cidAll) {
            List<String> mqRooms = strings(question.getJSONArray("mq_rooms"));
            List<String> cidRooms = strings(question.getJSONArray("cid_rooms"));
            for (int i = 0; mqAll != null && i < mqAll.size(); i++) {
                ofQueue.put(mqAll.get(i), mqRooms.get(i));
            }
            for (int i = 0; cidAll != null && i < cidAll.size(); i++) {
                ofClient.put(cidAll.get(i), cidRooms.get(i));
            }
        }

        @Override
        public String brokerDeployIn(MessageQueue messageQueue) {
            return ofQueue.get(messageQueue);
        }

        @Override
        public String consumerDeployIn(String clientID) {
            return ofClient.get(clientID);
        }
    }

    private static List<MessageQueue> messageQueues(JSONArray rows) {
        if (rows == null) {
            return null;
        }
        List<MessageQueue> queues = new ArrayList<>();
        for (Object row : rows) {
            JSONArray queue = (JSONArray) row;
            queues.add(new MessageQueue(queue.getString(0), queue.getString(1), queue.getIntValue(2)));
        }
        return queues;
    }

    private static List<String> strings(JSONArray values) {
        if (values == null) {
            return null;
        }
        List<String> strings = new ArrayList<>();
        for (Object value : values) {
            strings.add((String) value);
        }
        return strings;
    }
}
