import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Clients that live in this JVM, each commanded by its name: a line of stdin is "NAME VERB ARGUMENTS", its answer on
 * stdout "NAME done ..." or "NAME failed ...". Clients answer side by side, one client in order. The end of stdin ends
 * the JVM without a word to brokers.
 */
public class FieldClient {
    private static final Map<String, String> MEMBERS = new HashMap<>();

    static {
        for (String kind : new String[] {"push", "push_orderly", "broadcasting", "pop"}) {
            MEMBERS.put(kind, "RemotingPush");
        }
        MEMBERS.put("lite_pull", "RemotingLitePull");
        MEMBERS.put("pull_assign", "RemotingLitePull");
        MEMBERS.put("producer", "RemotingProducer");
        MEMBERS.put("grpc_push", "GrpcPush");
        MEMBERS.put("grpc_producer", "GrpcProducer");
    }

    private final PrintStream answers;
    private final Map<String, ExecutorService> threads = new HashMap<>();
    private final Map<String, Member> members = new ConcurrentHashMap<>();
    private final Map<String, TruthLog> logs = new ConcurrentHashMap<>();

    private FieldClient(PrintStream answers) {
        this.answers = answers;
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what a library prints is no answer
        FieldClient client = new FieldClient(answers);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            client.obey(line);
        }
        Runtime.getRuntime().halt(0);
    }

    private void obey(String line) {
        String[] parts = line.split(" ", 3);
        String name = parts[0];
        threads.computeIfAbsent(name, key -> Executors.newSingleThreadExecutor()).execute(() -> {
            try {
                say(name + " done " + act(name, parts[1], parts.length > 2 ? parts[2] : ""));
            } catch (Throwable refused) {
                refused.printStackTrace();
                say(name + " failed " + refused.toString().replaceAll("\\s+", " "));
            }
        });
    }

    private String act(String name, String verb, String arguments) throws Exception {
        switch (verb) {
            case "start":
                return start(name, new String(Files.readAllBytes(Paths.get(arguments)), StandardCharsets.UTF_8));
            case "stop":
                logs.remove(name).close();
                members.remove(name).stop();
                return "";
            default:
                if (!members.containsKey(name)) {
                    throw new IllegalStateException(name + " is not started");
                }
                members.get(name).command(verb, arguments);
                return "";
        }
    }

    private String start(String name, String text) throws Exception {
        if (members.containsKey(name)) {
            throw new IllegalStateException(name + " is started already");
        }
        JSONObject spec = JSON.parseObject(text);
        Class<?> kind = Class.forName(MEMBERS.get(spec.getString("kind")));
        Member member = (Member) kind.getDeclaredConstructor(JSONObject.class).newInstance(spec);
        member.start();
        members.put(name, member);
        logs.put(name, new TruthLog(spec, member));
        return member.clientId();
    }

    private void say(String answer) {
        synchronized (answers) {
            answers.println(answer);
            answers.flush();
        }
    }
}
