// Sells two seats, makes a call and follows the events of the show, with Jedis 5 and Java 17 or newer.
//
//     java -cp 'jedis.jar:commons-pool2.jar:slf4j-api.jar:json.jar:gson.jar' SeatAndCall.java [HOST [PORT]]

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Supplier;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.exceptions.JedisConnectionException;
import redis.clients.jedis.params.XReadParams;
import redis.clients.jedis.resps.StreamEntry;

/** Sells two seats, makes a call and follows the events of the show. */
public final class SeatAndCall {
    private static final String SHOW = "{example}:show";
    private static final String POOL = "{example}:pool";
    private static final String PLAN =
            "{\"areas\":[{\"id\":\"box\",\"rows\":[{\"label\":\"1\",\"rank\":1,\"tier\":\"gold\","
                    + "\"seats\":\"1-40\"}]}],\"events\":1000}";
    private static final int ATTEMPTS = 10;

    private final JedisPooled client;

    private SeatAndCall(JedisPooled client) {
        this.client = client;
    }

    /**
     * Runs a request, and runs it again when the connection breaks before the reply. The first request may have been
     * executed. With a token this does no harm: the reply is the same. An error of the server is final.
     */
    private static <T> T withRetry(Supplier<T> request) {
        for (int attempt = 1; ; attempt++) {
            try {
                return request.get();
            } catch (JedisConnectionException error) {
                if (attempt == ATTEMPTS) {
                    throw error;
                }
                pause(attempt * 100L);
            }
        }
    }

    private static void pause(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    private Object ask(String command, String... arguments) {
        byte[] name = command.getBytes(StandardCharsets.UTF_8);
        return withRetry(() -> client.sendCommand(() -> name, arguments));
    }

    private static String text(Object value) {
        return new String((byte[]) value, StandardCharsets.UTF_8);
    }

    /** In RESP2 a record is a flat list of names and values. */
    private static Map<String, Object> record(Object reply) {
        List<?> values = (List<?>) reply;
        Map<String, Object> fields = new HashMap<>();
        for (int i = 0; i + 1 < values.size(); i += 2) {
            fields.put(text(values.get(i)), values.get(i + 1));
        }
        return fields;
    }

    /** Holds two seats and sells them, both under a token that was chosen before the first request. */
    private void sell(String token) {
        ask("SEAT.CREATE", SHOW, PLAN);
        Object hold = ask("SEAT.HOLD", SHOW, "ann", "2", "TTL", "60000", "TIER", "gold", "TOKEN", token);
        if (hold == null) {
            throw new IllegalStateException("sold out");
        }
        List<String> seats = new ArrayList<>();
        for (Object seat : (List<?>) record(hold).get("seats")) {
            seats.add(text(seat));
        }
        System.out.println("held " + String.join(" ", seats));
        System.out.println("sold " + ask("SEAT.CONFIRM", SHOW, token, "USER", "ann", "ORDER", token));
    }

    /** Takes a free number for a call, and ends the call. */
    private void call(String token) {
        ask("NUMPOOL.ADD", POOL, "5550100", "5550101");
        ask("NUMPOOL.REG", POOL, "5550100", "5550101", "SWITCH", "sw1");
        Object lease = ask("NUMPOOL.CALL", POOL, "TTL", "60000", "LEASE", token);
        if (lease == null) {
            throw new IllegalStateException("all numbers are busy");
        }
        String number = text(record(lease).get("number"));
        System.out.println("called " + number);
        // 1, or 0 if the request was sent twice: the call has ended in both cases.
        ask("NUMPOOL.HANGUP", POOL, number, "LEASE", token);
        System.out.println("hung up");
    }

    /** Reads the event stream until the sale of this token. A service stores the last id, and goes on after it. */
    private void follow(String token) {
        StreamEntryID last = new StreamEntryID(0, 0);
        while (true) {
            Map<String, StreamEntryID> after = Map.of(SHOW + ":evt", last);
            List<Map.Entry<String, List<StreamEntry>>> streams =
                    withRetry(() -> client.xread(XReadParams.xReadParams().block(1000), after));
            if (streams == null) {
                continue;
            }
            for (StreamEntry entry : streams.get(0).getValue()) {
                last = entry.getID();
                Map<String, String> fields = entry.getFields();
                if (!token.equals(fields.get("token"))) {
                    continue;
                }
                System.out.println("event " + fields.get("event"));
                if ("confirmed".equals(fields.get("event"))) {
                    return;
                }
            }
        }
    }

    /** Arguments: the host and the port of the server. */
    public static void main(String[] arguments) {
        String host = arguments.length > 0 ? arguments[0] : "127.0.0.1";
        int port = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 6379;
        try (JedisPooled client = new JedisPooled(host, port)) {
            SeatAndCall program = new SeatAndCall(client);
            String token = UUID.randomUUID().toString();
            program.sell(token);
            program.call(token);
            program.follow(token);
        }
    }
}
