/* Burst.java - a ThreadPoolExecutor whose threads are all started; driven by pool_outside.c.
 *
 * java Burst.java CLOSES FOLLOWERS ANSWER_NS WORK_NS THREADS
 * stdin: 'g' per burst. stdout: '+' once when ready; per burst the offsets from its beginning, in ns: when each
 * close was taken up, then when each copy started; 8 bytes each, the lowest first. */
import java.io.DataInputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

public class Burst {
    public static void main(String[] args) throws Exception {
        int closes = Integer.parseInt(args[0]), followers = Integer.parseInt(args[1]);
        long answerNs = Long.parseLong(args[2]), workNs = Long.parseLong(args[3]);
        int threads = Integer.parseInt(args[4]), copies = closes * followers;
        long[] events = new long[closes], starts = new long[copies];
        ThreadPoolExecutor pool =
            new ThreadPoolExecutor(threads, threads, 1, TimeUnit.DAYS, new LinkedBlockingQueue<>());
        pool.prestartAllCoreThreads();
        DataInputStream in = new DataInputStream(System.in);
        OutputStream out = System.out;
        out.write('+');
        out.flush();
        while (in.read() == 'g') {
            CountDownLatch answered = new CountDownLatch(copies);
            long from = System.nanoTime();
            for (int close = 0; close < closes; close++) {
                events[close] = System.nanoTime();
                while (workNs > 0 && System.nanoTime() < events[close] + workNs)
                    continue;
                for (int follower = 0; follower < followers; follower++) {
                    int copy = close * followers + follower;
                    pool.execute(() -> {
                        starts[copy] = System.nanoTime();
                        for (long left = answerNs; left > 0; left = starts[copy] + answerNs - System.nanoTime())
                            LockSupport.parkNanos(left);
                        answered.countDown();
                    });
                }
            }
            answered.await();
            ByteBuffer told = ByteBuffer.allocate(8 * (closes + copies)).order(ByteOrder.LITTLE_ENDIAN);
            for (long event : events)
                told.putLong(event - from);
            for (long start : starts)
                told.putLong(start - from);
            out.write(told.array());
            out.flush();
        }
        System.exit(0);
    }
}
