import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/**
 * A Kerberos realm for tests where MIT's is not installed: Apache Kerby, which Maven brings.
 *
 * <p>Arguments: a folder, the host, the port, the realm. The folder's file `principals` has lines of a principal, its password and
 * its keytab. It listens once all keytabs are written.
 */
public class Kdc {
    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        SimpleKdcServer kdc = new SimpleKdcServer();
        // It writes a krb5.conf of its own there.
        kdc.setWorkDir(Files.createDirectories(folder.resolve("kerby")).toFile());
        kdc.setKdcHost(args[1]);
        kdc.setKdcTcpPort(Integer.parseInt(args[2]));
        kdc.setKdcRealm(args[3]);
        kdc.setAllowUdp(false);
        kdc.init();
        for (String line : Files.readAllLines(folder.resolve("principals"))) {
            String[] words = line.split(" ");
            kdc.createPrincipal(words[0], words[1]);
            kdc.exportPrincipal(words[0], new File(words[2]));
        }
        kdc.start();
        Thread.currentThread().join();
    }
}
