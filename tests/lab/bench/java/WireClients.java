import io.netty.bootstrap.Bootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInitializer;
import io.netty.channel.ChannelOption;
import io.netty.channel.SimpleChannelInboundHandler;
import io.netty.channel.nio.NioEventLoopGroup;
import io.netty.channel.socket.SocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.netty.NettyDecoder;
import org.apache.rocketmq.remoting.netty.NettyEncoder;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.remoting.protocol.ResponseCode;
import org.apache.rocketmq.remoting.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.remoting.protocol.body.ProcessQueueInfo;
import org.apache.rocketmq.remoting.protocol.header.UpdateConsumerOffsetRequestHeader;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.remoting.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.remoting.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.remoting.protocol.heartbeat.ProducerData;
import org.apache.rocketmq.remoting.protocol.heartbeat.SubscriptionData;

/**
 * Thousands of consumers as a broker sees them, on three threads: RocketMQ's own codec and bodies on a channel a client and
 * broker, a heartbeat every 30 s, offsets once, an answer to GET_CONSUMER_RUNNING_INFO. They do not pull.
 *
 * An MQClientInstance has more than ten threads; 5,000 of them would be the load that is measured.
 */
public final class WireClients {
    private static final int TOPICS_SHARE = 10;
    private static final long HEARTBEAT_SECONDS = 30;

    private static String[] brokers;
    private static int queues;
    private static int groups;
    private static int clients;

    /** GROUPS CLIENTS QUEUES NAME=HOST:PORT...; says READY on stdout, and ends with its stdin. */
    public static void main(String[] args) throws Exception {
        groups = Integer.parseInt(args[0]);
        clients = Integer.parseInt(args[1]);
        queues = Integer.parseInt(args[2]);
        brokers = java.util.Arrays.copyOfRange(args, 3, args.length);
        NioEventLoopGroup loops = new NioEventLoopGroup(2);
        List<Channel> channels = new ArrayList<>();
        for (int client = 0; client < clients; client++) {
            for (String broker : brokers) {
                channels.add(connect(loops, client, broker.substring(broker.indexOf('=') + 1)));
            }
        }
        System.out.println("READY");
        while (System.in.read() >= 0) {
        }
        loops.shutdownGracefully(0, 1, TimeUnit.SECONDS);
        System.exit(0);
    }

    private static Channel connect(NioEventLoopGroup loops, int client, String address) throws Exception {
        Bootstrap bootstrap = new Bootstrap().group(loops).channel(NioSocketChannel.class);
        bootstrap.option(ChannelOption.SO_RCVBUF, 8192).option(ChannelOption.SO_SNDBUF, 8192);
        bootstrap.handler(new ChannelInitializer<SocketChannel>() {
            @Override
            protected void initChannel(SocketChannel channel) {
                channel.pipeline().addLast(new NettyEncoder(), new NettyDecoder(), new Answers(client));
            }
        });
        String[] parts = address.split(":");
        Channel channel = bootstrap.connect(parts[0], Integer.parseInt(parts[1])).sync().channel();
        channel.writeAndFlush(heartbeat(client)).sync();
        for (int queue = client / groups; queue < queues; queue += Math.max(1, clients / groups)) {
            UpdateConsumerOffsetRequestHeader header = new UpdateConsumerOffsetRequestHeader();
            header.setConsumerGroup(group(client));
            header.setTopic(topic(client));
            header.setQueueId(queue);
            header.setCommitOffset(0L);
            channel.write(request(RequestCode.UPDATE_CONSUMER_OFFSET, header));
        }
        channel.flush();
        long spread = client * HEARTBEAT_SECONDS * 1000L / clients;
        channel.eventLoop().scheduleAtFixedRate(
            () -> channel.writeAndFlush(heartbeat(client)), spread, HEARTBEAT_SECONDS * 1000, TimeUnit.MILLISECONDS);
        return channel;
    }

    private static RemotingCommand request(int code, org.apache.rocketmq.remoting.CommandCustomHeader header) {
        RemotingCommand command = RemotingCommand.createRequestCommand(code, header);
        command.setVersion(MQVersion.CURRENT_VERSION);
        return command;
    }

    private static RemotingCommand heartbeat(int client) {
        HeartbeatData data = new HeartbeatData();
        data.setClientID(clientId(client));
        ConsumerData consumer = new ConsumerData();
        consumer.setGroupName(group(client));
        consumer.setConsumeType(ConsumeType.CONSUME_PASSIVELY);
        consumer.setMessageModel(MessageModel.CLUSTERING);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        consumer.getSubscriptionDataSet().add(subscription(client));
        data.getConsumerDataSet().add(consumer);
        ProducerData producer = new ProducerData();
        producer.setGroupName("CLIENT_INNER_PRODUCER");
        data.getProducerDataSet().add(producer);
        RemotingCommand command = request(RequestCode.HEART_BEAT, null);
        command.setBody(data.encode());
        return command;
    }

    private static SubscriptionData subscription(int client) {
        SubscriptionData subscription = new SubscriptionData(topic(client), "*");
        subscription.setSubVersion(1L);
        return subscription;
    }

    private static String clientId(int client) {
        return "10." + client / 62500 + "." + client / 250 % 250 + "." + client % 250 + "@" + client + "#1";
    }

    private static String group(int client) {
        return "group_" + client % groups;
    }

    private static String topic(int client) {
        return "topic_" + client % groups / TOPICS_SHARE;
    }

    private static byte[] runningInfo(int client) {
        ConsumerRunningInfo info = new ConsumerRunningInfo();
        Properties properties = new Properties();
        properties.setProperty("allocateMessageQueueStrategy",
            "org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely@1");
        properties.setProperty("consumeOrderly", "false");
        info.setProperties(properties);
        info.setSubscriptionSet(new TreeSet<>(List.of(subscription(client))));
        TreeMap<MessageQueue, ProcessQueueInfo> held = new TreeMap<>();
        int share = Math.max(1, brokers.length * queues * groups / clients);
        int first = client / groups * share;
        for (int index = first; index < Math.min(first + share, brokers.length * queues); index++) {
            ProcessQueueInfo queue = new ProcessQueueInfo();
            queue.setLastPullTimestamp(System.currentTimeMillis());
            queue.setLastConsumeTimestamp(System.currentTimeMillis());
            String broker = brokers[index / queues];
            held.put(new MessageQueue(topic(client), broker.substring(0, broker.indexOf('=')), index % queues), queue);
        }
        info.setMqTable(held);
        info.setStatusTable(new TreeMap<>());
        return info.encode();
    }

    private static final class Answers extends SimpleChannelInboundHandler<RemotingCommand> {
        private final int client;

        Answers(int client) {
            this.client = client;
        }

        @Override
        protected void channelRead0(ChannelHandlerContext context, RemotingCommand command) {
            if (command.isResponseType() || command.getCode() != RequestCode.GET_CONSUMER_RUNNING_INFO) {
                return;
            }
            RemotingCommand answer = RemotingCommand.createResponseCommand(ResponseCode.SUCCESS, null);
            answer.setOpaque(command.getOpaque());
            answer.setBody(runningInfo(client));
            context.writeAndFlush(answer);
        }
    }
}
