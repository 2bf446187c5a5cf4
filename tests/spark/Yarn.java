import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A cluster of YARN with two nodes in one process, until standard input ends: FOLDER, which gets the clients' yarn-site.xml. */
public class Yarn {
    /** Hadoop without its native library starts a chmod for each file, and an archive has thousands. */
    public static class Local extends LocalFileSystem {
        public Local() {
            super(new RawLocalFileSystem() {
                @Override
                public void setPermission(Path path, FsPermission permission) throws IOException {
                    Files.setPosixFilePermissions(
                            pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
                }
            });
        }
    }

    public static void main(String[] arguments) throws Exception {
        Configuration conf = new YarnConfiguration();
        conf.setInt("yarn.scheduler.minimum-allocation-mb", 128);
        conf.set("yarn.scheduler.capacity.root.queues", "default");
        conf.setInt("yarn.scheduler.capacity.root.default.capacity", 100);
        conf.setFloat("yarn.scheduler.capacity.maximum-am-resource-percent", 1);
        conf.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        // A disk that is nearly full would make the nodes unhealthy.
        conf.setBoolean("yarn.nodemanager.disk-health-checker.enable", false);
        conf.set("yarn.nodemanager.bind-host", "127.0.0.1");
        conf.set("yarn.resourcemanager.bind-host", "127.0.0.1");
        conf.setClassLoader(Yarn.class.getClassLoader());
        conf.setClass("fs.file.impl", Local.class, FileSystem.class);
        MiniYARNCluster cluster = new MiniYARNCluster("ottla", 2, 1, 1);
        cluster.init(conf);
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(60_000)) {
            throw new IllegalStateException("the nodes did not register within 60 s");
        }
        Configuration clients = new Configuration(cluster.getConfig());
        clients.unset("fs.file.impl");
        try (OutputStream out = new FileOutputStream(arguments[0] + "/yarn-site.xml")) {
            clients.writeXml(out);
        }
        System.out.println("ready");
        while (System.in.read() >= 0) { }
        cluster.stop();
        System.exit(0);
    }
}
