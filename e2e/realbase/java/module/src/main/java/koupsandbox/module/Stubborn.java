package koupsandbox.module;

import com.alipay.sofa.ark.api.ArkClient;
import com.alipay.sofa.ark.spi.event.biz.BeforeBizStopEvent;
import com.alipay.sofa.ark.spi.service.event.EventHandler;

/** A module whose stop handler throws. */
public class Stubborn implements EventHandler<BeforeBizStopEvent> {
    public static void main(String[] args) throws InterruptedException {
        Plain.main(args);
        ArkClient.getEventAdminService().register(new Stubborn());
    }

    @Override
    public void handleEvent(BeforeBizStopEvent event) {
        if ("stubborn".equals(event.getSource().getBizName())) {
            throw new IllegalStateException("the module does not let go");
        }
    }

    @Override
    public int getPriority() {
        return 0;
    }
}
