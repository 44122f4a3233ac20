import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;

/** What a client holds, a line of JSON a second, from a thread of its own; the file is continued. */
class TruthLog extends Thread {
    private static final long EVERY_MILLIS = 1000;

    private final JSONObject spec;
    private final Member member;
    private final MachineClock clock;
    private final BufferedWriter file;
    private volatile boolean isOpen = true;

    TruthLog(JSONObject spec, Member member) throws IOException {
        super("truth-" + spec.getString("name"));
        this.spec = spec;
        this.member = member;
        clock = new MachineClock(spec.getDoubleValue("clock_skew_s"));
        file = Files.newBufferedWriter(Paths.get(spec.getString("truth_log")), StandardCharsets.UTF_8,
            StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        setDaemon(true);
        start();
    }

    @Override
    public void run() {
        try {
            while (isOpen) {
                write();
                Thread.sleep(EVERY_MILLIS);
            }
        } catch (InterruptedException closed) {
            // its end
        } catch (Exception broken) {
            broken.printStackTrace();
        }
    }

    private synchronized void write() throws Exception {
        JSONObject line = new JSONObject(true);
        line.put("t", System.currentTimeMillis());
        line.put("client", spec.getString("name"));
        line.put("client_id", member.clientId());
        line.put("kind", spec.getString("kind"));
        line.put("group", spec.getString("group"));
        line.put("release", spec.getString("release"));
        member.describe(line, clock);
        if (isOpen) {
            file.write(line.toString(SerializerFeature.DisableCircularReferenceDetect));
            file.write('\n');
            file.flush();
        }
    }

    /** Nothing is written any more. */
    void close() throws IOException {
        isOpen = false;
        interrupt();
        synchronized (this) {
            file.close();
        }
    }
}
