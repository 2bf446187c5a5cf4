import java.io.FileOutputStream;
import java.io.OutputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A cluster of YARN with one node, in one process, until standard input ends: FOLDER, which gets the clients' yarn-site.xml. */
public class Yarn {
    public static void main(String[] arguments) throws Exception {
        Configuration conf = new YarnConfiguration();
        conf.setInt("yarn.scheduler.minimum-allocation-mb", 128);
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.setInt("yarn.scheduler.capacity.root.default.capacity", 100);
        conf.setFloat("yarn.scheduler.capacity.maximum-am-resource-percent", 1);
        conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        // A disk that is nearly full would make the node unhealthy.
        conf.setBoolean("yarn.nodemanager.disk-health-checker.enable", false);
        conf.set("yarn.nodemanager.bind-host", "127.0.0.1");
        conf.set("yarn.resourcemanager.bind-host", "127.0.0.1");
        MiniYARNCluster cluster = new MiniYARNCluster("ottla", 1, 1, 1);
        cluster.init(conf);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(60_000)) {
            throw new IllegalStateException("the node did not register within 60 s");
        }
        try (OutputStream out = new FileOutputStream(arguments[0] + "/yarn-site.xml")) {
            cluster.getConfig().writeXml(out);
        }
        System.out.println("ready");
        while (System.in.read() >= 0) { }
        cluster.stop();
        System.exit(0);
    }
}
